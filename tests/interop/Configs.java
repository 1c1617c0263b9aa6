import java.lang.reflect.Field;
import java.lang.reflect.Method;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;

/**
 * Prints every config that Kafka defines for a type of resource: resource, name and type, a line each. Then, a line for
 * each broker's config that stands in for a topic's, in their order: "synonym", the topic's, and NAME=VALUE, the value
 * of the topic's where the broker's is 1.
 */
public class Configs {
    public static void main(String[] arguments) throws Exception {
        print("broker", "org.apache.kafka.server.config.AbstractKafkaConfig");
        print("topic", "org.apache.kafka.storage.internals.log.LogConfig");
        print("group", "org.apache.kafka.coordinator.group.GroupConfig");
        print("client_metrics", "org.apache.kafka.server.metrics.ClientMetricsConfigs");
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, synonyms) -> {
            for (ConfigSynonym synonym : synonyms) {
                System.out.println("synonym " + name + " " + synonym.name() + "=" + synonym.converter().apply("1"));
            }
        });
    }

    private static void print(String resource, String owner) throws Exception {
        for (ConfigDef.ConfigKey key : definition(Class.forName(owner)).configKeys().values()) {
            System.out.println(resource + " " + key.name + " " + key.type.name().toLowerCase());
        }
    }

    /** Where the definition is a method, that one is the public one; else it is the only static field of its type. */
    private static ConfigDef definition(Class<?> owner) throws Exception {
        for (Method method : owner.getDeclaredMethods()) {
            if (ConfigDef.class.isAssignableFrom(method.getReturnType()) && method.getParameterCount() == 0) {
                method.setAccessible(true);
                return (ConfigDef) method.invoke(null);
            }
        }
        for (Field field : owner.getDeclaredFields()) {
            if (ConfigDef.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                return (ConfigDef) field.get(null);
            }
        }
        throw new IllegalStateException(owner + " defines no configs");
    }
}
