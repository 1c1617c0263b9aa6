package org.apache.kafka.controller;

import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metadata.AccessControlEntryRecord;
import org.apache.kafka.common.metadata.RemoveAccessControlEntryRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAclWithId;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Decides about ACLs with Kafka's AclControlManager, and who may do what with its StandardAuthorizer. The arguments are a
 * file of questions, super.users and allow.everyone.if.no.acl.found. A line of the file is one question: a word, and
 * after tabs its entries, whose fields stand between bars; ~ is null. Each is answered by one line.
 */
public class Acls {
    private final AclControlManager manager = new AclControlManager.Builder().build();
    private final StandardAuthorizer authorizer = new StandardAuthorizer();

    public static void main(String[] arguments) throws Exception {
        Acls harness = new Acls();
        harness.authorizer.configure(
            Map.of("super.users", arguments[1], "allow.everyone.if.no.acl.found", arguments[2], "node.id", "1"));
        harness.authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        harness.authorizer.completeInitialLoad();
        for (String line : Files.readAllLines(Path.of(arguments[0]), StandardCharsets.UTF_8)) {
            String[] columns = line.split("\t", -1);
            System.out.println(harness.answer(columns[0], List.of(columns).subList(1, columns.length)));
        }
    }

    private String answer(String question, List<String> entries) throws Exception {
        switch (question) {
            case "create": return create(entries.stream().map(Acls::binding).toList());
            case "delete": return delete(entries.stream().map(Acls::filter).toList());
            case "describe": return sorted(authorizer.acls(filter(entries.get(0))));
            default: return may(entries.get(0).split("\\|", -1));
        }
    }

    private String create(List<AclBinding> bindings) {
        var result = manager.createAcls(bindings);
        List<AclBinding> written = new ArrayList<>();
        for (ApiMessageAndVersion each : result.records()) {
            AccessControlEntryRecord record = (AccessControlEntryRecord) each.message();
            manager.replay(record);
            StandardAclWithId acl = StandardAclWithId.fromRecord(record);
            authorizer.addAcl(acl.id(), acl.acl());
            written.add(acl.toBinding());
        }
        String outcomes = result.response().stream()
            .map(each -> code(each.exception().orElse(null))).collect(Collectors.joining(","));
        return outcomes + "\t" + sorted(written);
    }

    private String delete(List<AclBindingFilter> filters) {
        var result = manager.deleteAcls(filters);
        for (ApiMessageAndVersion each : result.records()) {
            RemoveAccessControlEntryRecord record = (RemoveAccessControlEntryRecord) each.message();
            manager.replay(record);
            authorizer.removeAcl(record.id());
        }
        return result.records().size() + "\t" + result.response().stream().map(each -> code(each.exception().orElse(null)) + " "
            + sorted(each.aclBindingDeleteResults().stream().map(one -> one.aclBinding()).toList()))
            .collect(Collectors.joining("\t"));
    }

    private String may(String[] asked) throws Exception {
        KafkaPrincipal principal = new KafkaPrincipal(asked[0], asked[1]);
        InetAddress address = InetAddress.getByName(asked[2]);
        ResourcePattern resource = new ResourcePattern(type(asked[4]), asked[5], PatternType.LITERAL);
        Action action = new Action(operation(asked[3]), resource, 1, true, true);
        List<AuthorizationResult> results = authorizer.authorize(new Asker(principal, address), List.of(action));
        return results.get(0) == AuthorizationResult.ALLOWED ? "yes" : "no";
    }

    private static String code(Throwable error) {
        return error == null ? "0" : Short.toString(Errors.forException(error).code());
    }

    private static String sorted(Iterable<AclBinding> bindings) {
        return StreamSupport.stream(bindings.spliterator(), false).map(Acls::text).sorted().collect(Collectors.joining(";"));
    }

    private static String text(AclBinding each) {
        return String.join("|", Byte.toString(each.pattern().resourceType().code()), each.pattern().name(),
            Byte.toString(each.pattern().patternType().code()), each.entry().principal(), each.entry().host(),
            Byte.toString(each.entry().operation().code()), Byte.toString(each.entry().permissionType().code()));
    }

    private static AclBinding binding(String text) {
        String[] fields = text.split("\\|", -1);
        return new AclBinding(
            new ResourcePattern(type(fields[0]), fields[1], pattern(fields[2])),
            new AccessControlEntry(fields[3], fields[4], operation(fields[5]), permission(fields[6])));
    }

    private static AclBindingFilter filter(String text) {
        String[] fields = text.split("\\|", -1);
        return new AclBindingFilter(
            new ResourcePatternFilter(type(fields[0]), orNull(fields[1]), pattern(fields[2])),
            new AccessControlEntryFilter(orNull(fields[3]), orNull(fields[4]), operation(fields[5]), permission(fields[6])));
    }

    private static String orNull(String text) {
        return text.equals("~") ? null : text;
    }

    private static ResourceType type(String code) {
        return ResourceType.fromCode(Byte.parseByte(code));
    }

    private static PatternType pattern(String code) {
        return PatternType.fromCode(Byte.parseByte(code));
    }

    private static AclOperation operation(String code) {
        return AclOperation.fromCode(Byte.parseByte(code));
    }

    private static AclPermissionType permission(String code) {
        return AclPermissionType.fromCode(Byte.parseByte(code));
    }

    private record Asker(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() {
            return "PLAINTEXT";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        public int requestType() {
            return 0;
        }

        public int requestVersion() {
            return 0;
        }

        public String clientId() {
            return "";
        }

        public int correlationId() {
            return 0;
        }
    }
}
