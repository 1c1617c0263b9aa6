import java.io.File;
import java.util.Optional;
import org.apache.kafka.raft.ElectionState;
import org.apache.kafka.raft.FileQuorumStateStore;

/** Reads each file that is named as Kafka does at a start: prints a line with what it says, or with what is refused. */
public class QuorumState {
    public static void main(String[] arguments) {
        for (String argument : arguments) {
            try {
                Optional<ElectionState> read = new FileQuorumStateStore(new File(argument)).readElectionState();
                ElectionState state = read.orElseThrow();
                int leader = state.hasLeader() ? state.leaderId() : -1;
                int voted = state.optionalVotedKey().map(key -> key.id()).orElse(-1);
                System.out.println(state.epoch() + " " + leader + " " + voted);
            } catch (Throwable refusal) {
                System.out.println("refused");
            }
        }
    }
}
