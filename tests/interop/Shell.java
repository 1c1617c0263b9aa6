import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.image.node.MetadataNode;
import org.apache.kafka.metadata.util.SnapshotFileReader;
import org.apache.kafka.server.config.DefaultSupportedConfigChecker;
import org.apache.kafka.server.fault.LoggingFaultHandler;
import org.apache.kafka.shell.command.Commands;
import org.apache.kafka.shell.state.MetadataShellPublisher;
import org.apache.kafka.shell.state.MetadataShellState;

/**
 * Kafka's metadata shell, for one command on one snapshot or segment, once it has loaded.
 *
 * MetadataShell itself runs the command as soon as its loader has applied the file, and what the command looks at
 * is set only after that: on a slow machine it shows an empty cluster each time. Loader, state and commands are the
 * same here.
 */
public class Shell {
    private static class LoadedState extends MetadataShellState {
        final CountDownLatch loaded = new CountDownLatch(1);

        @Override
        public void setRoot(MetadataNode root) {
            super.setRoot(root);
            loaded.countDown();
        }
    }

    public static void main(String[] arguments) throws Exception {
        LoadedState state = new LoadedState();
        AtomicReference<SnapshotFileReader> opened = new AtomicReference<>();
        MetadataLoader loader = new MetadataLoader.Builder()
            .setNodeId(-1)
            .setFaultHandler(new LoggingFaultHandler("shell", () -> { }))
            .setHighWaterMarkAccessor(() -> opened.get().highWaterMark())
            .setSupportedConfigChecker(new DefaultSupportedConfigChecker())
            .build();
        try (loader; SnapshotFileReader reader = new SnapshotFileReader(arguments[0], loader)) {
            opened.set(reader);
            reader.startup();
            loader.installPublishers(List.of(new MetadataShellPublisher(state)));
            state.loaded.await();
            PrintWriter out = new PrintWriter(System.out, false, StandardCharsets.UTF_8);
            List<String> command = Arrays.asList(arguments).subList(1, arguments.length);
            new Commands(false).parseCommand(command).run(Optional.empty(), out, state);
            out.flush();
        }
    }
}
