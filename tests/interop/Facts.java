import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Prints what Kafka's classes say of each level of metadata.version: a JSON object a line, with its name, its level and
 * the response of every method that takes nothing and gives a boolean or a short. By reflection, so that it runs with the
 * classes of any release.
 */
public class Facts {
    public static void main(String[] arguments) throws Exception {
        for (MetadataVersion version : MetadataVersion.values()) {
            TreeMap<String, String> answers = new TreeMap<>();
            answers.put("version", '"' + version.version() + '"');
            for (Method method : MetadataVersion.class.getDeclaredMethods()) {
                if (isQuestion(method)) {
                    answers.put(method.getName(), answer(method, version));
                }
            }
            List<String> pairs = new ArrayList<>();
            answers.forEach((name, value) -> pairs.add('"' + name + "\": " + value));
            System.out.println("{" + String.join(", ", pairs) + "}");
        }
    }

    private static boolean isQuestion(Method method) {
        return Modifier.isPublic(method.getModifiers()) && !Modifier.isStatic(method.getModifiers())
            && method.getParameterCount() == 0
            && (method.getReturnType() == boolean.class || method.getReturnType() == short.class);
    }

    /** Null where a level has no response: the method throws. */
    private static String answer(Method method, MetadataVersion version) throws Exception {
        try {
            return String.valueOf(method.invoke(version));
        } catch (java.lang.reflect.InvocationTargetException error) {
            return "null";
        }
    }
}
