import java.io.BufferedReader;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Makes of partitions what they shall become with Kafka's own PartitionChangeBuilder.
 *
 * Arguments are IN and OUT. A line of IN is a case, its fields apart by blanks, "-" for what stays as it is: the
 * partition as the bytes of its record, metadata.version, whether there are eligible leader replicas, the minimum in
 * sync, the election, who is acceptable, the target's ISR, replicas, removing and adding, its recovery state, who stopped
 * uncleanly, and directories as broker:id. A line of OUT is the record in bytes, or "-" for none.
 */
public class PartitionChanges {
    private static final String NOTHING = "-";

    public static void main(String[] arguments) throws Exception {
        try (BufferedReader in = Files.newBufferedReader(Path.of(arguments[0]));
             PrintWriter out = new PrintWriter(arguments[1], StandardCharsets.UTF_8)) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                out.println(written(change(line.split(" "))));
            }
        }
    }

    private static Optional<ApiMessageAndVersion> change(String[] fields) {
        byte[] bytes = HexFormat.of().parseHex(fields[0]);
        PartitionRecord record = (PartitionRecord) MetadataRecordSerde.INSTANCE.read(
            new ByteBufferAccessor(ByteBuffer.wrap(bytes)), bytes.length).message();
        List<Integer> acceptable = ids(fields[5]);
        PartitionChangeBuilder builder = new PartitionChangeBuilder(
            new PartitionRegistration(record), record.topicId(), record.partitionId(), acceptable::contains,
            MetadataVersion.fromFeatureLevel(Short.parseShort(fields[1])), Integer.parseInt(fields[3]),
            fields[2].equals("1"));
        builder.setElection(PartitionChangeBuilder.Election.valueOf(fields[4]));
        builder.setDefaultDirProvider(broker -> new Uuid(7, broker));
        if (!fields[6].equals(NOTHING)) {
            builder.setTargetIsr(ids(fields[6]));
        }
        if (!fields[7].equals(NOTHING)) {
            builder.setTargetReplicas(ids(fields[7]));
        }
        if (!fields[8].equals(NOTHING)) {
            builder.setTargetRemoving(ids(fields[8]));
        }
        if (!fields[9].equals(NOTHING)) {
            builder.setTargetAdding(ids(fields[9]));
        }
        if (!fields[10].equals(NOTHING)) {
            builder.setTargetLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(fields[10])));
        }
        builder.setUncleanShutdownReplicas(ids(fields[11]));
        if (!fields[12].equals(NOTHING)) {
            for (String directory : fields[12].split(",")) {
                String[] parts = directory.split(":");
                builder.setDirectory(Integer.parseInt(parts[0]), new Uuid(7, Integer.parseInt(parts[1])));
            }
        }
        return builder.build();
    }

    private static List<Integer> ids(String field) {
        return Stream.of(field.substring(1).split(",")).filter(one -> !one.isEmpty()).map(Integer::valueOf)
            .collect(Collectors.toCollection(ArrayList::new));
    }

    private static String written(Optional<ApiMessageAndVersion> record) {
        if (record.isEmpty()) {
            return NOTHING;
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record.get(), cache));
        MetadataRecordSerde.INSTANCE.write(record.get(), cache, new ByteBufferAccessor(bytes));
        return HexFormat.of().formatHex(bytes.array());
    }
}
