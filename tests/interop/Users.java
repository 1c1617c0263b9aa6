package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.common.message.AlterClientQuotasRequestData;
import org.apache.kafka.common.message.AlterUserScramCredentialsRequestData;
import org.apache.kafka.common.metadata.ClientQuotaRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.RemoveUserScramCredentialRecord;
import org.apache.kafka.common.metadata.UserScramCredentialRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.requests.AlterClientQuotasRequest;
import org.apache.kafka.common.requests.AlterClientQuotasResponse;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.mutable.BoundedListTooLongException;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Decides requests about client quotas and SCRAM credentials with the managers of Kafka's controller. Lines and answers are
 * those of Topics. A FeatureLevel among the replayed records is the metadata.version from there on.
 */
public class Users {
    private static final short NO_ERROR = 0;

    private final SnapshotRegistry snapshots = new SnapshotRegistry(new LogContext());
    private final ClientQuotaControlManager quotas = new ClientQuotaControlManager(new LogContext(), snapshots);
    private final ScramControlManager credentials = new ScramControlManager.Builder().setSnapshotRegistry(snapshots).build();
    private MetadataVersion level = MetadataVersion.latestProduction();

    public static void main(String[] arguments) throws Exception {
        Users harness = new Users();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(harness.answer(line.split("\t", -1)));
            System.out.flush();
        }
    }

    private String answer(String[] columns) {
        short version = Short.parseShort(columns[2]);
        if (columns[0].equals("records")) {
            for (String record : columns[4].split(",")) {
                ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(record));
                replay(MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(bytes), bytes.remaining()).message());
            }
            return "";
        }
        ByteBufferAccessor body = new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(columns[4])));
        ControllerResult<? extends Message> result;
        try {
            result = decide(columns[0], body, version);
        } catch (BoundedListTooLongException error) {
            return Errors.POLICY_VIOLATION.code() + "\t\t";
        }
        for (ApiMessageAndVersion record : result.records()) {
            replay(record.message());
        }
        String records = result.records().stream().map(Users::hex).collect(Collectors.joining(","));
        return NO_ERROR + "\t" + hex(result.response(), version) + "\t" + records;
    }

    private ControllerResult<? extends Message> decide(String kind, ByteBufferAccessor body, short version) {
        if (kind.equals("AlterUserScramCredentials")) {
            return credentials.alterCredentials(new AlterUserScramCredentialsRequestData(body, version), level);
        }
        AlterClientQuotasRequest request = new AlterClientQuotasRequest(new AlterClientQuotasRequestData(body, version), version);
        ControllerResult<Map<ClientQuotaEntity, ApiError>> result = quotas.alterClientQuotas(request.entries());
        return ControllerResult.atomicOf(
            request.validateOnly() ? List.of() : result.records(),
            AlterClientQuotasResponse.fromQuotaEntities(result.response(), 0).data());
    }

    private void replay(ApiMessage record) {
        if (record instanceof FeatureLevelRecord feature) {
            level = MetadataVersion.fromFeatureLevel(feature.featureLevel());
        } else if (record instanceof ClientQuotaRecord quota) {
            quotas.replay(quota);
        } else if (record instanceof UserScramCredentialRecord credential) {
            credentials.replay(credential);
        } else if (record instanceof RemoveUserScramCredentialRecord removal) {
            credentials.replay(removal);
        } else {
            throw new IllegalStateException("no manager here replays a " + record);
        }
    }

    private static String hex(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
        MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(bytes));
        return HexFormat.of().formatHex(bytes.array(), 0, bytes.position());
    }

    private static String hex(Message message, short version) {
        ByteBuffer written = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[written.remaining()];
        written.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
