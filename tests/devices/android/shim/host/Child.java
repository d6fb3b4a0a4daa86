package host;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Test-only: a Python child that answers a file with ai_edge_litert; speaks as host_runtime.py does, and says after
 * "ok" how many inputs and outputs the file's first graph has.
 */
public final class Child implements AutoCloseable {
    private final Process process;
    private final DataOutputStream requests;
    private final DataInputStream answers;
    /** Children that were started and not closed. */
    public static int open;
    public final int inputs;
    public final int outputs;

    public Child(String model) {
        try {
            process = new ProcessBuilder(
                System.getProperty("LITERT_PYTHON"), System.getProperty("LITERT_HOST_SCRIPT"), model)
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
            requests = new DataOutputStream(new BufferedOutputStream(process.getOutputStream()));
            answers = new DataInputStream(new BufferedInputStream(process.getInputStream()));
            if (answers.read() != 'o' || answers.read() != 'k') throw new IOException("the child did not start");
            inputs = answers.readInt();
            outputs = answers.readInt();
            open++;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    public List<byte[]> answer(String key, Map<String, byte[]> inputs, List<String> outputs) {
        try {
            write(key == null ? "" : key);
            requests.writeInt(inputs.size());
            for (Map.Entry<String, byte[]> input : inputs.entrySet()) {
                write(input.getKey());
                requests.writeInt(input.getValue().length);
                requests.write(input.getValue());
            }
            requests.writeInt(outputs.size());
            for (String output : outputs) write(output);
            requests.flush();
            List<byte[]> found = new ArrayList<>();
            for (String ignored : outputs) {
                byte[] content = new byte[answers.readInt()];
                answers.readFully(content);
                found.add(content);
            }
            return found;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private void write(String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        requests.writeInt(bytes.length);
        requests.write(bytes);
    }

    @Override
    public void close() {
        open--;
        process.destroy();
        try {
            process.waitFor();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
