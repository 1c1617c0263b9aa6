import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import kafka.tools.StorageTool;

/**
 * Formats directories by Kafka's own tool: each argument is a directory that holds a `node.properties` and a file
 * `options`, one option or value a line. What the tool printed goes to its file `output`, or what it refused to
 * `refusal`.
 */
public class Formats {
    public static void main(String[] arguments) throws Exception {
        for (String argument : arguments) {
            Path directory = Path.of(argument);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            String[] options = Files.readAllLines(directory.resolve("options")).toArray(new String[0]);
            try {
                StorageTool.execute(options, new PrintStream(printed));
                Files.write(directory.resolve("output"), printed.toByteArray());
            } catch (Throwable refusal) {
                Files.writeString(directory.resolve("refusal"), String.valueOf(refusal.getMessage()));
            }
        }
    }
}
