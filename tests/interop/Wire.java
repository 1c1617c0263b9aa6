import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.DefaultPrincipalData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Reads frames with Kafka's own message classes, and writes them again. Each line of the file is a frame: "request" or
 * "response", the API's key, the version, the frame without its length as hex, and its body as JSON, or "-". For each it
 * prints three columns: the frame as Kafka writes what it read, the body as Kafka writes what it made of the JSON, and
 * the body that it read as JSON. A "principal" is what an Envelope holds: its version, and then the body.
 */
public class Wire {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            try {
                out.append(answer(line.split("\t"))).append('\n');
            } catch (Exception error) {
                throw new RuntimeException(line.substring(0, Math.min(line.length(), 500)), error);
            }
        }
        System.out.print(out);
    }

    private static String answer(String[] columns) throws Exception {
        if (columns[0].equals("principal")) {
            return principal(ByteBuffer.wrap(HexFormat.of().parseHex(columns[3])), columns[4]);
        }
        boolean isRequest = columns[0].equals("request");
        ApiMessageType api = ApiMessageType.fromApiKey(Short.parseShort(columns[1]));
        short version = Short.parseShort(columns[2]);
        short headerVersion = isRequest ? api.requestHeaderVersion(version) : api.responseHeaderVersion(version);
        ByteBuffer frame = ByteBuffer.wrap(HexFormat.of().parseHex(columns[3]));
        ApiMessage header = isRequest ? new RequestHeaderData() : new ResponseHeaderData();
        ApiMessage body = isRequest ? api.newRequest() : api.newResponse();
        header.read(new ByteBufferAccessor(frame), headerVersion);
        body.read(new ByteBufferAccessor(frame), version);
        if (frame.hasRemaining()) {
            throw new IllegalStateException(frame.remaining() + " bytes follow the body");
        }
        return hex(header, headerVersion) + answer(body, version, columns[4]);
    }

    private static String principal(ByteBuffer bytes, String json) throws Exception {
        short version = bytes.getShort();
        return String.format("%04x", version)
            + answer(new DefaultPrincipalData(new ByteBufferAccessor(bytes), version), version, json);
    }

    private static String answer(ApiMessage body, short version, String json) throws Exception {
        String made = json.equals("-") ? "-" : hex(fromJson(body, json, version), version);
        return hex(body, version) + '\t' + made + '\t' + toJson(body, version);
    }

    private static String hex(Message message, short version) {
        ByteBuffer written = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[written.remaining()];
        written.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static Class<?> converter(ApiMessage message) throws Exception {
        return Class.forName(message.getClass().getName() + "JsonConverter");
    }

    private static Message fromJson(ApiMessage like, String text, short version) throws Exception {
        Method read = converter(like).getMethod("read", JsonNode.class, short.class);
        return (Message) read.invoke(null, JSON.readTree(text), version);
    }

    /** Records are told by their size: the converters have no other way. */
    private static String toJson(ApiMessage message, short version) throws Exception {
        Method write = converter(message).getMethod("write", message.getClass(), short.class, boolean.class);
        return write.invoke(null, message, version, false).toString();
    }
}
