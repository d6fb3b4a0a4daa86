package org.tensorflow.lite;

import host.Child;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Test-only: the part of the Android class that the generated code uses, with its rules, over a Python child. */
public final class Interpreter implements AutoCloseable {
    public static class Options {
        public Options setNumThreads(int threads) {
            return this;
        }

        public Options addDelegate(Delegate delegate) {
            return this;
        }
    }

    private final Child child;
    private final Path file;

    public Interpreter(ByteBuffer model, Options options) {
        if (!model.isDirect() || model.order() != ByteOrder.nativeOrder()) {
            throw new IllegalArgumentException(
                "Model ByteBuffer should be either a MappedByteBuffer or a direct ByteBuffer in native order");
        }
        try {
            byte[] content = new byte[model.remaining()];
            model.duplicate().get(content);
            file = Files.createTempFile("model", ".tflite");
            Files.write(file, content);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        child = new Child(file.toString());
    }

    public void runSignature(Map<String, Object> inputs, Map<String, Object> outputs, String signatureKey) {
        if (signatureKey == null) throw new IllegalArgumentException("no signature");
        run(inputs, outputs, signatureKey);
    }

    public void runForMultipleInputsOutputs(Object[] inputs, Map<Integer, Object> outputs) {
        Map<String, Object> named = new LinkedHashMap<>();
        for (int number = 0; number < inputs.length; number++) named.put("" + number, inputs[number]);
        Map<String, Object> answers = new LinkedHashMap<>();
        for (int number = 0; number < outputs.size(); number++) answers.put("" + number, outputs.get(number));
        run(named, answers, null);
    }

    private void run(Map<String, Object> inputs, Map<String, Object> outputs, String key) {
        Map<String, byte[]> given = new LinkedHashMap<>();
        for (Map.Entry<String, Object> input : inputs.entrySet()) {
            ByteBuffer buffer = check((ByteBuffer) input.getValue());
            byte[] content = new byte[buffer.remaining()];
            buffer.get(content);
            given.put(input.getKey(), content);
        }
        List<String> names = new ArrayList<>(outputs.keySet());
        List<byte[]> found = child.answer(key, given, names);
        for (int number = 0; number < names.size(); number++) {
            ByteBuffer buffer = check((ByteBuffer) outputs.get(names.get(number)));
            if (buffer.remaining() != found.get(number).length) throw new IllegalArgumentException("output size");
            buffer.put(found.get(number));
        }
    }

    private static ByteBuffer check(ByteBuffer buffer) {
        if (!buffer.isDirect() || buffer.order() != ByteOrder.nativeOrder()) {
            throw new IllegalArgumentException("buffers must be direct, in native order");
        }
        return buffer;
    }

    @Override
    public void close() {
        child.close();
        file.toFile().delete();
    }
}
