import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.token.delegation.DelegationToken;

/**
 * Asks for random changes with Kafka's admin client: AdminOperations SEED COUNT BOOTSTRAP USER PASSWORD, where the bootstrap
 * servers want SASL/PLAIN. Prints a line for each change, the kind and the name of its error, NONE among them.
 */
public class AdminOperations {
    private final Random random;
    private final Admin admin;
    private final List<Integer> brokers = new ArrayList<>();
    private final List<String> topics = new ArrayList<>();
    private final List<DelegationToken> tokens = new ArrayList<>();
    private final Map<String, Supplier<KafkaFuture<?>>> kinds = Map.ofEntries(
        Map.entry("create-topic", this::createTopic),
        Map.entry("delete-topic", this::deleteTopic),
        Map.entry("create-partitions", this::createPartitions),
        Map.entry("topic-config", this::topicConfig),
        Map.entry("broker-config", this::brokerConfig),
        Map.entry("client-metrics", this::clientMetrics),
        Map.entry("quota", this::quota),
        Map.entry("scram", this::scram),
        Map.entry("create-acl", this::createAcl),
        Map.entry("delete-acls", this::deleteAcls),
        Map.entry("create-token", this::createToken),
        Map.entry("renew-token", this::renewToken),
        Map.entry("expire-token", this::expireToken),
        Map.entry("reassign", this::reassign),
        Map.entry("cancel-reassignment", this::cancelReassignment),
        Map.entry("elect", this::elect)
    );

    private AdminOperations(long seed, Admin admin) throws Exception {
        this.random = new Random(seed);
        this.admin = admin;
        for (Node node : admin.describeCluster().nodes().get()) {
            brokers.add(node.id());
        }
        Collections.sort(brokers);
    }

    public static void main(String[] arguments) throws Exception {
        Properties client = new Properties();
        client.put("bootstrap.servers", arguments[2]);
        client.put("security.protocol", "SASL_PLAINTEXT");
        client.put("sasl.mechanism", "PLAIN");
        client.put("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required username=\""
            + arguments[3] + "\" password=\"" + arguments[4] + "\";");
        try (Admin admin = Admin.create(client)) {
            new AdminOperations(Long.parseLong(arguments[0]), admin).run(Integer.parseInt(arguments[1]));
        }
    }

    private void run(int count) throws Exception {
        List<String> names = new ArrayList<>(kinds.keySet());
        Collections.sort(names);
        names.addAll(List.of("create-topic", "create-topic", "create-topic"));
        for (int done = 0; done < count; done++) {
            String kind = names.get(random.nextInt(names.size()));
            System.out.println(kind + " " + errorOf(kinds.get(kind).get()));
        }
    }

    private static Errors errorOf(KafkaFuture<?> change) throws InterruptedException {
        try {
            change.get();
            return Errors.NONE;
        } catch (ExecutionException error) {
            return Errors.forException(error.getCause());
        }
    }

    private KafkaFuture<?> createTopic() {
        Map<Integer, List<Integer>> replicas = new HashMap<>();
        int partitions = 1 + random.nextInt(6);
        int factor = 1 + random.nextInt(brokers.size());
        for (int partition = 0; partition < partitions; partition++) {
            replicas.put(partition, someBrokers(factor));
        }
        Map<String, String> configs = random.nextBoolean() ? Map.of("retention.ms", "" + random.nextInt(1 << 30)) : Map.of();
        String name = "topic" + random.nextInt(500);
        topics.add(name);
        return admin.createTopics(List.of(new NewTopic(name, replicas).configs(configs))).all();
    }

    private KafkaFuture<?> deleteTopic() {
        String name = someTopic();
        topics.removeAll(List.of(name));
        return admin.deleteTopics(List.of(name)).all();
    }

    private KafkaFuture<?> createPartitions() {
        return admin.createPartitions(Map.of(someTopic(), NewPartitions.increaseTo(5 + random.nextInt(8)))).all();
    }

    private KafkaFuture<?> topicConfig() {
        ConfigEntry entry = random.nextBoolean()
            ? new ConfigEntry("max.message.bytes", "" + (1_000 + random.nextInt(100_000)))
            : new ConfigEntry("min.insync.replicas", "" + (1 + random.nextInt(2)));
        return config(ConfigResource.Type.TOPIC, someTopic(), entry, random.nextInt(4) == 0);
    }

    private KafkaFuture<?> brokerConfig() {
        String broker = random.nextBoolean() ? "" : "" + brokers.get(0);
        ConfigEntry entry = new ConfigEntry("log.cleaner.threads", "" + (1 + random.nextInt(2)));
        return config(ConfigResource.Type.BROKER, broker, entry, false);
    }

    private KafkaFuture<?> clientMetrics() {
        ConfigEntry entry = new ConfigEntry("interval.ms", "" + 1_000 * (1 + random.nextInt(9)));
        return config(ConfigResource.Type.CLIENT_METRICS, "metrics" + random.nextInt(3), entry, random.nextInt(4) == 0);
    }

    private KafkaFuture<?> config(ConfigResource.Type type, String name, ConfigEntry entry, boolean delete) {
        AlterConfigOp op = new AlterConfigOp(entry, delete ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET);
        return admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, name), List.of(op))).all();
    }

    private KafkaFuture<?> quota() {
        Map<String, String> entity = new HashMap<>();
        if (random.nextBoolean()) {
            entity.put("user", random.nextBoolean() ? null : someUser());
        }
        if (entity.isEmpty() || random.nextBoolean()) {
            entity.put("client-id", random.nextBoolean() ? null : "client" + random.nextInt(5));
        }
        Double rate = random.nextInt(4) == 0 ? null : 1_000.0 + random.nextInt(100_000);
        ClientQuotaAlteration.Op op = new ClientQuotaAlteration.Op("producer_byte_rate", rate);
        return admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(entity), List.of(op)))).all();
    }

    private KafkaFuture<?> scram() {
        ScramMechanism mechanism = random.nextBoolean() ? ScramMechanism.SCRAM_SHA_256 : ScramMechanism.SCRAM_SHA_512;
        return admin.alterUserScramCredentials(List.of(random.nextInt(3) == 0
            ? new UserScramCredentialDeletion(someUser(), mechanism)
            : new UserScramCredentialUpsertion(someUser(), new ScramCredentialInfo(mechanism, 4_096), "secret"))).all();
    }

    private KafkaFuture<?> createAcl() {
        ResourceType[] types = {ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID};
        AclOperation[] operations = {AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE};
        ResourceType type = types[random.nextInt(types.length)];
        AclOperation operation = type == ResourceType.TOPIC
            ? operations[random.nextInt(operations.length)]
            : AclOperation.DESCRIBE;
        PatternType pattern = random.nextBoolean() ? PatternType.LITERAL : PatternType.PREFIXED;
        AclPermissionType permission = random.nextInt(4) == 0 ? AclPermissionType.DENY : AclPermissionType.ALLOW;
        return admin.createAcls(List.of(new AclBinding(
            new ResourcePattern(type, "resource" + random.nextInt(9), pattern),
            new AccessControlEntry("User:" + someUser(), "*", operation, permission)))).all();
    }

    private KafkaFuture<?> deleteAcls() {
        ResourcePatternFilter pattern =
            new ResourcePatternFilter(ResourceType.ANY, "resource" + random.nextInt(9), PatternType.ANY);
        return admin.deleteAcls(List.of(new AclBindingFilter(pattern, AccessControlEntryFilter.ANY))).all();
    }

    private KafkaFuture<?> createToken() {
        CreateDelegationTokenOptions options = new CreateDelegationTokenOptions().maxLifetimeMs(3_600_000);
        KafkaFuture<DelegationToken> token = admin.createDelegationToken(options).delegationToken();
        return token.thenApply(made -> {
            tokens.add(made);
            return made;
        });
    }

    private KafkaFuture<?> renewToken() {
        return admin.renewDelegationToken(someToken()).expiryTimestamp();
    }

    private KafkaFuture<?> expireToken() {
        byte[] hmac = someToken();
        tokens.removeIf(token -> token.hmac() == hmac);
        return admin.expireDelegationToken(hmac, new ExpireDelegationTokenOptions().expiryTimePeriodMs(-1)).expiryTimestamp();
    }

    private KafkaFuture<?> reassign() {
        NewPartitionReassignment target = new NewPartitionReassignment(someBrokers(1 + random.nextInt(brokers.size())));
        return admin.alterPartitionReassignments(Map.of(somePartition(), Optional.of(target))).all();
    }

    private KafkaFuture<?> cancelReassignment() {
        return admin.alterPartitionReassignments(Map.of(somePartition(), Optional.empty())).all();
    }

    private KafkaFuture<?> elect() {
        ElectionType type = random.nextBoolean() ? ElectionType.PREFERRED : ElectionType.UNCLEAN;
        return admin.electLeaders(type, Set.of(somePartition())).all();
    }

    private List<Integer> someBrokers(int count) {
        List<Integer> shuffled = new ArrayList<>(brokers);
        Collections.shuffle(shuffled, random);
        return List.copyOf(shuffled.subList(0, count));
    }

    private TopicPartition somePartition() {
        return new TopicPartition(someTopic(), 0);
    }

    private String someTopic() {
        return topics.isEmpty() ? "no-topic" : topics.get(random.nextInt(topics.size()));
    }

    private String someUser() {
        return "user" + random.nextInt(5);
    }

    private byte[] someToken() {
        return tokens.isEmpty() ? new byte[] {1} : tokens.get(random.nextInt(tokens.size())).hmac();
    }
}
