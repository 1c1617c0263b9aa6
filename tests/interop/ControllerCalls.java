import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.RaftVoterEndpoint;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * Makes each call that Kafka's AdminClient sends to controllers themselves, with one of them to ask first: HOST:PORT, and
 * the id of a broker to unregister. One line a call: its name, and what it gave, or the error with its text.
 */
public class ControllerCalls {
    private static final ConfigResource CLUSTER = new ConfigResource(ConfigResource.Type.BROKER, "");
    private static final TopicPartition WORDS = new TopicPartition("words", 0);
    private static final Uuid DIRECTORY = Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ");

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.controllers", arguments[0]);
        int broker = Integer.parseInt(arguments[1]);
        ResourcePattern topic = new ResourcePattern(ResourceType.TOPIC, "words", PatternType.LITERAL);
        AccessControlEntry everybody = new AccessControlEntry("User:*", "*", AclOperation.READ, AclPermissionType.ALLOW);
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry("log.retention.ms", "4321"), AlterConfigOp.OpType.SET);
        FeatureUpdate upgrade = new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE);
        try (Admin admin = Admin.create(config)) {
            tell("describeCluster", admin.describeCluster().nodes().thenApply(ControllerCalls::ids));
            tell("describeMetadataQuorum", admin.describeMetadataQuorum().quorumInfo().thenApply(q -> q.leaderId()));
            tell("describeFeatures", admin.describeFeatures().featureMetadata()
                .thenApply(f -> f.finalizedFeatures().get("metadata.version").maxVersionLevel()));
            tell("incrementalAlterConfigs", admin.incrementalAlterConfigs(Map.of(CLUSTER, List.of(set))).all());
            tell("describeConfigs", admin.describeConfigs(List.of(CLUSTER)).all()
                .thenApply(found -> found.get(CLUSTER).get("log.retention.ms").value()));
            tell("listPartitionReassignments", admin.listPartitionReassignments().reassignments());
            tell("unregisterBroker", admin.unregisterBroker(broker).all());
            tell("createAcls", admin.createAcls(List.of(new AclBinding(topic, everybody))).all());
            tell("describeAcls", admin.describeAcls(AclBindingFilter.ANY).values());
            tell("deleteAcls", admin.deleteAcls(List.of(AclBindingFilter.ANY)).all());
            tell("alterPartitionReassignments", admin.alterPartitionReassignments(
                Map.of(WORDS, Optional.of(new NewPartitionReassignment(List.of(1))))).all());
            tell("updateFeatures", admin.updateFeatures(
                Map.of("group.version", upgrade), new UpdateFeaturesOptions().validateOnly(true)).all());
            tell("addRaftVoter", admin.addRaftVoter(
                4, DIRECTORY, Set.of(new RaftVoterEndpoint("CONTROLLER", "localhost", 1))).all());
            tell("removeRaftVoter", admin.removeRaftVoter(4, DIRECTORY).all());
        }
    }

    private static void tell(String call, KafkaFuture<?> future) throws InterruptedException {
        try {
            System.out.println(call + ": " + future.get());
        } catch (ExecutionException error) {
            System.out.println(call + ": " + error.getCause().getClass().getSimpleName() + ": " + error.getCause().getMessage());
        }
    }

    private static String ids(Collection<org.apache.kafka.common.Node> nodes) {
        return nodes.stream().map(node -> node.id()).collect(Collectors.toCollection(TreeSet::new)).toString();
    }
}
