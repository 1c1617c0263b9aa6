package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map.Entry;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.zip.CRC32;
import kafka.server.ControllerConfigurationValidator;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.message.AlterConfigsRequestData;
import org.apache.kafka.common.message.AlterConfigsResponseData;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.CreatePartitionsRequestData;
import org.apache.kafka.common.message.CreatePartitionsResponseData;
import org.apache.kafka.common.message.CreateTopicsRequestData;
import org.apache.kafka.common.message.CreateTopicsResponseData;
import org.apache.kafka.common.message.DeleteTopicsRequestData;
import org.apache.kafka.common.message.DeleteTopicsResponseData;
import org.apache.kafka.common.message.IncrementalAlterConfigsRequestData;
import org.apache.kafka.common.message.ListPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.ClearElrRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.mutable.BoundedListTooLongException;
import org.apache.kafka.server.policy.AlterConfigPolicy;
import org.apache.kafka.server.policy.CreateTopicPolicy;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Decides requests about topics, partitions and configs with the managers of Kafka's controller, one line a request: kind, seed of
 * its random numbers, version, whether it was forwarded, and its body as hex. "records" are replayed, separated by
 * commas. Each line is answered by one: an error of the whole request, its response as hex, and its records, which
 * have been replayed if the request was not only to be validated. Both requests that alter configs are answered by the
 * newest response to AlterConfigs.
 *
 * The arguments are the controller's properties, as NAME=VALUE. What Kafka's ControllerApis checks before is not here:
 * no topic or resource may appear twice. With test.policies=true there are policies, which refuse a quarter of what they are
 * told, and fail at another: which, the CRC of a text of all of it says.
 */
public class Topics {
    private static final int NODE_ID = 3000;
    private static final short NO_ERROR = 0;

    private final Random random = new Random();
    private final SnapshotRegistry snapshots = new SnapshotRegistry(new LogContext());
    private final FeatureControlManager features;
    private final ClusterControlManager cluster;
    private final ConfigurationControlManager configs;
    private final ReplicationControlManager topics;
    private long offset = 0;

    public static void main(String[] arguments) throws Exception {
        Topics harness = new Topics(arguments);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(harness.answer(line.split("\t", -1)));
            System.out.flush();
        }
    }

    private Topics(String[] arguments) {
        Properties properties = new Properties();
        properties.putAll(Map.of(
            "process.roles", "controller", "node.id", Integer.toString(NODE_ID), "controller.listener.names", "CONTROLLER",
            "controller.quorum.voters", NODE_ID + "@localhost:9093", "listeners", "CONTROLLER://localhost:9093"));
        for (String argument : arguments) {
            properties.put(argument.split("=", 2)[0], argument.split("=", 2)[1]);
        }
        boolean hasPolicies = properties.remove("test.policies") != null;
        KafkaConfig config = KafkaConfig.fromProps(properties);
        features = new FeatureControlManager.Builder().setSnapshotRegistry(snapshots)
            .setQuorumFeatures(new QuorumFeatures(0, QuorumFeatures.defaultSupportedFeatureMap(true), List.of(0))).build();
        configs = new ConfigurationControlManager.Builder().setSnapshotRegistry(snapshots)
            .setKafkaConfigSchema(KafkaRaftServer.configSchema()).setStaticConfig(new HashMap<>(config.originals()))
            .setValidator(new ControllerConfigurationValidator(config)).setExistenceChecker(this::checkExists)
            .setAlterConfigPolicy(hasPolicies ? Optional.of(new ConfigsPolicy()) : Optional.empty())
            .setNodeId(NODE_ID).setFeatureControl(features).build();
        cluster = new ClusterControlManager.Builder().setSnapshotRegistry(snapshots).setFeatureControlManager(features)
            .setReplicaPlacer(new StripedReplicaPlacer(random)).setBrokerShutdownHandler((id, clean, records) -> { }).build();
        topics = new ReplicationControlManager.Builder().setSnapshotRegistry(snapshots).setConfigurationControl(configs)
            .setClusterControl(cluster).setFeatureControl(features).setDefaultNumPartitions(config.numPartitions())
            .setCreateTopicPolicy(hasPolicies ? Optional.of(new TopicPolicy()) : Optional.empty())
            .setDefaultReplicationFactor((short) config.defaultReplicationFactor()).build();
        cluster.activate();
    }

    /** Brokers need not be registered: only topics are looked for. */
    private void checkExists(ConfigResource resource) {
        if (resource.type() == ConfigResource.Type.TOPIC && topics.getTopicId(resource.name()) == null) {
            throw new UnknownTopicOrPartitionException();
        }
    }

    private String answer(String[] columns) throws Exception {
        random.setSeed(Long.parseLong(columns[1]));
        short version = Short.parseShort(columns[2]);
        boolean forwarded = Boolean.parseBoolean(columns[3]);
        if (columns[0].equals("records")) {
            for (String record : columns[4].split(",")) {
                ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(record));
                replay(MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(bytes), bytes.remaining()).message());
            }
            return "";
        }
        ByteBufferAccessor body = new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(columns[4])));
        ControllerResult<? extends Message> result;
        try {
            result = decide(columns[0], body, version, forwarded);
        } catch (BoundedListTooLongException error) {
            return Errors.POLICY_VIOLATION.code() + "\t\t";
        } catch (ApiException error) {
            return Errors.forException(error).code() + "\t\t";
        }
        for (ApiMessageAndVersion record : result.records()) {
            replay(record.message());
        }
        String records = result.records().stream().map(Topics::hex).collect(Collectors.joining(","));
        short written = result.response() instanceof AlterConfigsResponseData ? AlterConfigsResponseData.HIGHEST_SUPPORTED_VERSION : version;
        return NO_ERROR + "\t" + hex(result.response(), written) + "\t" + records;
    }

    private ControllerResult<? extends Message> decide(String kind, ByteBufferAccessor body, short version, boolean forwarded) {
        ControllerRequestContext context = new ControllerRequestContext(
            new RequestHeaderData().setRequestApiVersion(version), KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
        switch (kind) {
            case "CreateTopics": {
                CreateTopicsRequestData request = new CreateTopicsRequestData(body, version);
                Set<String> names = request.topics().stream().map(topic -> topic.name()).collect(Collectors.toSet());
                return topics.createTopics(context, request, names, forwarded);
            }
            case "CreatePartitions": {
                CreatePartitionsRequestData request = new CreatePartitionsRequestData(body, version);
                ControllerResult<List<CreatePartitionsResponseData.CreatePartitionsTopicResult>> result =
                    topics.createPartitions(context, new ArrayList<>(request.topics()));
                return of(result, new CreatePartitionsResponseData().setResults(result.response()), request.validateOnly());
            }
            case "DeleteTopics": {
                DeleteTopicsRequestData request = new DeleteTopicsRequestData(body, version);
                ControllerResult<Map<Uuid, ApiError>> result = topics.deleteTopics(context,
                    request.topics().stream().map(topic -> topic.topicId()).collect(Collectors.toList()));
                DeleteTopicsResponseData response = new DeleteTopicsResponseData();
                result.response().forEach((id, error) -> response.responses().add(
                    new DeleteTopicsResponseData.DeletableTopicResult().setName(null).setTopicId(id).setErrorCode(error.error().code())));
                return of(result, response, false);
            }
            case "AlterPartitionReassignments":
                return topics.alterPartitionReassignments(new AlterPartitionReassignmentsRequestData(body, version));
            case "ListPartitionReassignments":
                return ControllerResult.of(List.of(), topics.listPartitionReassignments(
                    new ListPartitionReassignmentsRequestData(body, version).topics(), Long.MAX_VALUE));
            case "AlterPartition":
                return topics.alterPartition(context, new AlterPartitionRequestData(body, version));
            case "IncrementalAlterConfigs": {
                IncrementalAlterConfigsRequestData request = new IncrementalAlterConfigsRequestData(body, version);
                Map<ConfigResource, Map<String, Entry<OpType, String>>> changes = new HashMap<>();
                request.resources().forEach(resource -> {
                    Map<String, Entry<OpType, String>> ofOne = new HashMap<>();
                    resource.configs().forEach(
                        config -> ofOne.put(config.name(), Map.entry(OpType.forId(config.configOperation()), orEmpty(config.value()))));
                    changes.put(resource(resource.resourceType(), resource.resourceName()), ofOne);
                });
                return of(configs.incrementalAlterConfigs(changes, false, forwarded), request.validateOnly());
            }
            default: {
                AlterConfigsRequestData request = new AlterConfigsRequestData(body, version);
                Map<ConfigResource, Map<String, String>> wanted = new HashMap<>();
                request.resources().forEach(resource -> {
                    Map<String, String> ofOne = new HashMap<>();
                    resource.configs().forEach(config -> ofOne.put(config.name(), config.value()));
                    wanted.put(resource(resource.resourceType(), resource.resourceName()), ofOne);
                });
                return of(configs.legacyAlterConfigs(wanted, false, forwarded), request.validateOnly());
            }
        }
    }

    private static void judge(String text) {
        CRC32 sum = new CRC32();
        sum.update(text.getBytes(StandardCharsets.UTF_8));
        if (sum.getValue() % 4 == 0) {
            throw new PolicyViolationException(text);
        }
        if (sum.getValue() % 4 == 1) {
            throw new IllegalStateException(text);
        }
    }

    private static String told(Map<?, ?> map) {
        return map == null ? "null" : new TreeMap<>(map).toString();
    }

    private static class TopicPolicy implements CreateTopicPolicy {
        @Override
        public void configure(Map<String, ?> values) {
        }

        @Override
        public void validate(RequestMetadata asked) {
            judge(asked.topic() + " " + asked.numPartitions() + " " + asked.replicationFactor() + " "
                + told(asked.replicasAssignments()) + " " + told(asked.configs()));
        }

        @Override
        public void close() {
        }
    }

    private static class ConfigsPolicy implements AlterConfigPolicy {
        @Override
        public void configure(Map<String, ?> values) {
        }

        @Override
        public void validate(RequestMetadata asked) {
            judge(asked.resource().type().id() + " " + asked.resource().name() + " " + told(asked.configs()));
        }

        @Override
        public void close() {
        }
    }

    private static String orEmpty(String value) {
        return value == null ? "" : value;
    }

    private static ConfigResource resource(byte type, String name) {
        return new ConfigResource(ConfigResource.Type.forId(type), name);
    }

    private static ControllerResult<Message> of(ControllerResult<Map<ConfigResource, ApiError>> result, boolean validateOnly) {
        AlterConfigsResponseData response = new AlterConfigsResponseData();
        result.response().forEach((resource, error) -> response.responses().add(
            new AlterConfigsResponseData.AlterConfigsResourceResponse().setResourceType(resource.type().id())
                .setResourceName(resource.name()).setErrorCode(error.error().code()).setErrorMessage(null)));
        return of(result, response, validateOnly);
    }

    private static ControllerResult<Message> of(ControllerResult<?> result, Message response, boolean validateOnly) {
        return ControllerResult.atomicOf(validateOnly ? List.of() : result.records(), response);
    }

    private void replay(ApiMessage record) {
        offset++;
        if (record instanceof FeatureLevelRecord feature) {
            features.replay(feature);
        } else if (record instanceof RegisterBrokerRecord broker) {
            cluster.replay(broker, offset);
        } else if (record instanceof BrokerRegistrationChangeRecord change) {
            cluster.replay(change);
            if (change.inControlledShutdown() == 1 && cluster.isUnfenced(change.brokerId())) {
                cluster.heartbeatManager().maybeUpdateControlledShutdownOffset(change.brokerId(), offset);
            }
        } else if (record instanceof ConfigRecord config) {
            configs.replay(config);
        } else if (record instanceof TopicRecord topic) {
            topics.replay(topic);
        } else if (record instanceof PartitionRecord partition) {
            topics.replay(partition);
        } else if (record instanceof PartitionChangeRecord change) {
            topics.replay(change);
        } else if (record instanceof RemoveTopicRecord removal) {
            topics.replay(removal);
        } else if (record instanceof ClearElrRecord cleared) {
            topics.replay(cleared);
        } else {
            throw new IllegalStateException("no manager here replays a " + record);
        }
    }

    private static String hex(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
        MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(bytes));
        return HexFormat.of().formatHex(bytes.array(), 0, bytes.position());
    }

    private static String hex(Message message, short version) {
        ByteBuffer written = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[written.remaining()];
        written.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
