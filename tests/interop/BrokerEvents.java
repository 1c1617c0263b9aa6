package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metadata.UnregisterBrokerRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * What brokers' coming and going and their requests lead to, decided by Kafka's own ReplicationControlManager.
 *
 * Arguments are IN and OUT. A line of IN is a command, its fields apart by blanks; bytes are in hex. A line of OUT is what
 * became of it: the records, apart by commas, and the response, or "-". All records take effect at once.
 */
public class BrokerEvents {
    private static final String NOTHING = "-";

    public static void main(String[] arguments) throws Exception {
        try (BufferedReader in = Files.newBufferedReader(Path.of(arguments[0]));
             PrintWriter out = new PrintWriter(arguments[1], StandardCharsets.UTF_8)) {
            BrokerEvents events = new BrokerEvents();
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                if (line.equals("cluster")) {
                    events = new BrokerEvents();
                    out.println(NOTHING);
                    continue;
                }
                try {
                    out.println(events.told(line.split(" ")));
                } catch (Exception error) {
                    throw new RuntimeException(line, error);
                }
            }
        }
    }

    private final FeatureControlManager features;
    private final ClusterControlManager brokers;
    private final ConfigurationControlManager configs;
    private final ReplicationControlManager partitions;
    private long offset = 0;

    private BrokerEvents() {
        SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
        features = new FeatureControlManager.Builder().setSnapshotRegistry(registry)
            .setQuorumFeatures(new QuorumFeatures(0, QuorumFeatures.defaultSupportedFeatureMap(true), List.of(0)))
            .setKRaftVersionAccessor(new NoVersion()).build();
        brokers = new ClusterControlManager.Builder().setSnapshotRegistry(registry).setFeatureControlManager(features)
            .setBrokerShutdownHandler((broker, isClean, records) -> { }).build();
        configs = new ConfigurationControlManager.Builder().setSnapshotRegistry(registry).setFeatureControl(features)
            .setKafkaConfigSchema(KafkaRaftServer.configSchema()).setStaticConfig(Map.of()).build();
        partitions = new ReplicationControlManager.Builder().setSnapshotRegistry(registry).setFeatureControl(features)
            .setClusterControl(brokers).setConfigurationControl(configs).build();
        brokers.activate();
    }

    private String told(String[] fields) {
        List<ApiMessageAndVersion> records = new ArrayList<>();
        Optional<? extends Message> response = Optional.empty();
        short version = 0;
        switch (fields[0]) {
            case "replay" -> records.add(record(fields[1]));
            case "fence" -> partitions.handleBrokerFenced(number(fields[1]), records);
            case "unfence" -> partitions.handleBrokerUnfenced(number(fields[1]), number(fields[2]), records);
            case "stop" -> partitions.handleBrokerInControlledShutdown(number(fields[1]), number(fields[2]), records);
            case "restart" -> partitions.handleBrokerShutdown(number(fields[1]), fields[2].equals("1"), records);
            case "unregister" -> partitions.handleBrokerUnregistered(number(fields[1]), number(fields[2]), records);
            case "elect" -> partitions.maybeTriggerUncleanLeaderElectionForLeaderlessPartitions(records, 100_000);
            case "offline" -> partitions.handleDirectoriesOffline(
                number(fields[1]), number(fields[2]), uuids(fields[3]), records);
            case "alter" -> {
                version = (short) number(fields[1]);
                AlterPartitionRequestData request = new AlterPartitionRequestData(bytes(fields[2]), version);
                response = Optional.of(add(records, partitions.alterPartition(context(version), request)));
            }
            case "assign" -> {
                AssignReplicasToDirsRequestData request = new AssignReplicasToDirsRequestData(bytes(fields[1]), version);
                response = Optional.of(add(records, partitions.handleAssignReplicasToDirs(request)));
            }
            case "by-hand" -> {
                version = (short) number(fields[1]);
                ElectLeadersRequestData request = new ElectLeadersRequestData(bytes(fields[2]), version);
                response = Optional.of(add(records, partitions.electLeaders(request)));
            }
            default -> throw new IllegalArgumentException(fields[0]);
        }
        records.forEach(this::replay);
        short written = version;
        return records.stream().map(BrokerEvents::hex).collect(Collectors.joining(",")) + " "
            + response.map(message -> hex(message, written)).orElse(NOTHING);
    }

    private static <T> T add(List<ApiMessageAndVersion> records, ControllerResult<T> result) {
        records.addAll(result.records());
        return result.response();
    }

    private static ControllerRequestContext context(short version) {
        return new ControllerRequestContext(
            new RequestHeaderData().setRequestApiVersion(version), KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
    }

    private void replay(ApiMessageAndVersion record) {
        ApiMessage message = record.message();
        offset += 1;
        if (message instanceof FeatureLevelRecord feature) {
            features.replay(feature);
        } else if (message instanceof RegisterBrokerRecord broker) {
            brokers.replay(broker, offset);
        } else if (message instanceof UnregisterBrokerRecord broker) {
            brokers.replay(broker);
        } else if (message instanceof BrokerRegistrationChangeRecord change) {
            brokers.replay(change);
        } else if (message instanceof ConfigRecord config) {
            configs.replay(config);
        } else if (message instanceof TopicRecord topic) {
            partitions.replay(topic);
        } else if (message instanceof PartitionRecord partition) {
            partitions.replay(partition);
        } else if (message instanceof PartitionChangeRecord change) {
            partitions.replay(change);
        } else {
            throw new IllegalArgumentException(message.toString());
        }
    }

    private static int number(String field) {
        return Integer.parseInt(field);
    }

    private static List<Uuid> uuids(String field) {
        return Stream.of(field.split(",")).map(BrokerEvents::bytes).map(one -> {
            return new Uuid(one.readLong(), one.readLong());
        }).collect(Collectors.toList());
    }

    private static ByteBufferAccessor bytes(String hex) {
        return new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(hex)));
    }

    private static ApiMessageAndVersion record(String hex) {
        return MetadataRecordSerde.INSTANCE.read(bytes(hex), hex.length() / 2);
    }

    private static String hex(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
        MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(written));
        return HexFormat.of().formatHex(written.array());
    }

    private static String hex(Message message, short version) {
        ByteBuffer written = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[written.remaining()];
        written.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static class NoVersion implements KRaftVersionAccessor {
        @Override
        public KRaftVersion kraftVersion() {
            return KRaftVersion.KRAFT_VERSION_1;
        }

        @Override
        public void upgradeKRaftVersion(int epoch, KRaftVersion version, boolean validateOnly) {
            throw new UnsupportedOperationException();
        }
    }
}
