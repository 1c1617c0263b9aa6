import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.image.loader.MetadataBatchLoader.MetadataUpdater;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.fault.FaultHandler;

/**
 * Folds batches of metadata records with Kafka's own classes, and writes the image out after some of them.
 *
 * Arguments are IN and OUT, a pair for each log. Reads IN: for each batch whether its image is wanted (a byte), then its records. Writes OUT: each image that is
 * wanted, as records. Records are their number and, for each, its length and its bytes. Every batch outside of a
 * transaction is a delta of its own, and so is every transaction. Constructors that differ between Kafka's releases
 * are called by reflection.
 */
public class Fold {
    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < arguments.length; i += 2) {
            try (DataInputStream in = new DataInputStream(new BufferedInputStream(Files.newInputStream(Path.of(arguments[i]))));
                 DataOutputStream out = new DataOutputStream(
                     new BufferedOutputStream(Files.newOutputStream(Path.of(arguments[i + 1]))))) {
                new Fold().add(in, out);
            }
        }
    }

    private final MetadataBatchLoader loader = loader();
    private final Method flush = flush();
    private MetadataImage image = MetadataImage.EMPTY;
    private long offset = 0;

    private void add(DataInputStream in, DataOutputStream out) throws Exception {
        for (int wanted = in.read(); wanted >= 0; wanted = in.read()) {
            add(records(in));
            if (wanted == 1) {
                write(out);
            }
        }
    }

    private void add(List<ApiMessageAndVersion> records) throws Exception {
        loader.loadBatch(Batch.data(offset, 1, 0, 1, records), LeaderAndEpoch.UNKNOWN);
        offset += records.size();
        if (flush.getParameterCount() == 1) {
            flush.invoke(loader, LeaderAndEpoch.UNKNOWN);
        } else {
            flush.invoke(loader, LeaderAndEpoch.UNKNOWN, true);
        }
    }

    /** What cannot be written at the level of the image is an error: a legal log never asks for that. */
    private void write(DataOutputStream out) throws IOException {
        RecordListWriter list = new RecordListWriter();
        image.write(list, new ImageWriterOptions.Builder(image).build());
        list.close(true);
        out.writeInt(list.records().size());
        for (ApiMessageAndVersion record : list.records()) {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer bytes = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
            MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(bytes));
            out.writeInt(bytes.position());
            out.write(bytes.array(), 0, bytes.position());
        }
    }

    private static List<ApiMessageAndVersion> records(DataInputStream in) throws IOException {
        List<ApiMessageAndVersion> records = new ArrayList<>();
        for (int left = in.readInt(); left > 0; left--) {
            byte[] bytes = in.readNBytes(in.readInt());
            records.add(MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), bytes.length));
        }
        return records;
    }

    private MetadataBatchLoader loader() {
        FaultHandler fail = (message, cause) -> {
            throw new IllegalStateException(message, cause);
        };
        MetadataUpdater keep = (delta, image, manifest) -> this.image = image;
        try {
            Constructor<?> constructor = MetadataBatchLoader.class.getConstructors()[0];
            List<Object> parts = new ArrayList<>(List.of(new LogContext(), Time.SYSTEM, fail, keep));
            if (constructor.getParameterCount() > parts.size()) {
                parts.add(Class.forName("org.apache.kafka.metadata.SupportedConfigChecker").getField("TRUE").get(null));
            }
            return (MetadataBatchLoader) constructor.newInstance(parts.toArray());
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static Method flush() {
        for (Method method : MetadataBatchLoader.class.getMethods()) {
            if (method.getName().equals("maybeFlushBatches")) {
                return method;
            }
        }
        throw new IllegalStateException("no maybeFlushBatches");
    }
}
