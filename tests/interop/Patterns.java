import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;

/**
 * Says of each line of a file whether Java takes the pattern in it, or Kafka the list of matches: "yes", or why not. A
 * line is "pattern" or "match", a blank, and the text in UTF-8 as hexadecimal digits.
 */
public class Patterns {
    public static void main(String[] arguments) throws Exception {
        StringBuilder told = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split(" ", 2);
            String text = new String(HexFormat.of().parseHex(parts[1]), StandardCharsets.UTF_8);
            told.append(parts[0].equals("match") ? ofMatch(text) : ofPattern(text)).append('\n');
        }
        System.out.print(told);
    }

    private static String ofPattern(String text) {
        try {
            Pattern.compile(text);
            return "yes";
        } catch (PatternSyntaxException e) {
            return e.getDescription().lines().findFirst().get();
        } catch (RuntimeException | Error e) {
            return e.getClass().getSimpleName();
        }
    }

    private static String ofMatch(String text) {
        try {
            ClientMetricsConfigs.validate("s", Map.of("match", text));
            return "yes";
        } catch (ApiException | ConfigException e) {
            return e.getClass().getSimpleName();
        }
    }
}
