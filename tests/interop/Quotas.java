package org.apache.kafka.server.quota;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;

/**
 * Limits clients with the quota manager of Kafka's controllers, at the times that it is told. A line sets or removes a quota
 * (set, user, client id, rate) or is a request (take, user, client id, milliseconds, whether it is strict, partitions of each
 * topic); columns are divided by tabs. Of an entity "*" is the default, "-" is absent, and "=" comes before a name. The answer to a
 * request is a 1 for each topic that was refused and a 0 for each other, and how long to wait.
 */
public class Quotas {
    private static long nowMs = 0;

    private final ControllerMutationQuotaManager manager;

    private Quotas(int samples, int seconds) {
        manager = new ControllerMutationQuotaManager(
            new ClientQuotaManagerConfig(samples, seconds), new Metrics(), new ToldTime(), "", Optional.empty());
    }

    public static void main(String[] arguments) throws Exception {
        Quotas quotas = new Quotas(Integer.parseInt(arguments[0]), Integer.parseInt(arguments[1]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] columns = line.split("\t", -1);
            System.out.println(columns[0].equals("set") ? quotas.set(columns) : quotas.take(columns));
            System.out.flush();
        }
    }

    private String set(String[] columns) {
        Optional<ClientQuotaEntity.ConfigEntity> user = switch (columns[1].charAt(0)) {
            case '-' -> Optional.empty();
            case '*' -> Optional.of(ClientQuotaManager.DEFAULT_USER_ENTITY);
            default -> Optional.of(new ClientQuotaManager.UserEntity(Sanitizer.sanitize(columns[1].substring(1))));
        };
        Optional<ClientQuotaEntity.ConfigEntity> client = switch (columns[2].charAt(0)) {
            case '-' -> Optional.empty();
            case '*' -> Optional.of(ClientQuotaManager.DEFAULT_USER_CLIENT_ID);
            default -> Optional.of(new ClientQuotaManager.ClientIdEntity(columns[2].substring(1)));
        };
        boolean isRemoved = columns[3].equals("-");
        manager.updateQuota(
            user, client, isRemoved ? Optional.empty() : Optional.of(new Quota(Double.parseDouble(columns[3]), true)));
        return "";
    }

    private String take(String[] columns) throws Exception {
        nowMs = Long.parseLong(columns[3]);
        Session session = new Session(new KafkaPrincipal("User", columns[1]), InetAddress.getLoopbackAddress());
        ControllerMutationQuota quota = Boolean.parseBoolean(columns[4])
            ? manager.newStrictQuotaFor(session, columns[2])
            : manager.newPermissiveQuotaFor(session, columns[2]);
        List<String> told = new ArrayList<>();
        for (String partitions : columns[5].split(",")) {
            try {
                quota.record(Integer.parseInt(partitions));
                told.add("0");
            } catch (ThrottlingQuotaExceededException error) {
                told.add("1");
            }
        }
        return String.join(",", told) + "\t" + quota.throttleTime();
    }

    private static class ToldTime implements Time {
        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        }
    }
}
