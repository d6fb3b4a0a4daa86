import android.content.res.AssetManager;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Test-only: runs generated classes of either language by reflection, as lines of a file ask for it.
 *
 * A line has fields between tabs. "answer PACKAGE NAME RUNTIME ASSETS METHOD IN OUT" calls a signature for each
 * sample of IN and writes all numbers of the answers. "parity PACKAGE NAME RUNTIME ASSETS GPU" opens the model
 * with its check. "window PACKAGE NAME WINDOW IN OUT SOURCES HOP GAP" pushes samples and writes the windows.
 * "models ASSETS" opens the example app's models, closes them, and says how many runtimes were open before and after.
 * "labels PACKAGE NAME FIELD OUT" writes names as UTF-8 lines. What is found is printed, one line for each.
 */
public final class Driver {
    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Paths.get(arguments[0]), StandardCharsets.UTF_8)) {
            String[] fields = line.split("\t", -1);
            String found;
            try {
                found = run(fields);
            } catch (InvocationTargetException error) {
                found = "error " + error.getCause();
            }
            System.out.println(found.replace('\n', ' '));
        }
    }

    private static String run(String[] f) throws Exception {
        switch (f[0]) {
            case "answer": return answer(f[1], f[2], f[3], f[4], f[5], f[6], f[7]);
            case "parity": return parity(f[1], f[2], f[3], f[4], f[5]);
            case "window": return window(f[1], f[3], f[4], f[5], f[6], Integer.parseInt(f[7]), Long.parseLong(f[8]));
            case "models": return models(f[1]);
            case "best": return best(f[1], f[2].split(","), f[3].split(","));
            case "labels": return labels(f[1] + "." + f[2], f[3], f[4]);
            default: throw new IllegalArgumentException(f[0]);
        }
    }

    private static Object runtime(String pack, String name, String kind, String assets, Object processor)
        throws Exception {
        String asset = (String) Class.forName(pack + "." + name).getField("ASSET").get(null);
        AssetManager manager = new AssetManager(assets);
        if (kind.equals("CompiledModelRuntime")) {
            return widest(pack + "." + kind).newInstance(manager, asset, processor, null);
        }
        Class<?> reading = Class.forName(pack + ".ModelAssets");
        Object instance = null;
        for (Field field : reading.getFields()) {
            if (field.getName().equals("INSTANCE")) instance = field.get(null);
        }
        Object content = reading.getMethod("read", AssetManager.class, String.class).invoke(instance, manager, asset);
        Object direct = reading.getMethod("direct", byte[].class).invoke(instance, content);
        return widest(pack + "." + kind).newInstance(direct, processor, null, 1);
    }

    private static Constructor<?> widest(String name) throws Exception {
        for (Constructor<?> constructor : Class.forName(name).getConstructors()) {
            if (constructor.getParameterCount() == 4) return constructor;
        }
        throw new IllegalStateException(name);
    }

    private static Object processor(String pack, String name) throws Exception {
        return Class.forName(pack + ".Processor").getField(name).get(null);
    }

    private static String answer(
        String pack, String name, String kind, String assets, String called, String in, String out) throws Exception {
        Object runtime = runtime(pack, name, kind, assets, processor(pack, "CPU"));
        Object model = Class.forName(pack + "." + name).getConstructors()[0].newInstance(runtime);
        Method method = null;
        for (Method candidate : model.getClass().getMethods()) {
            if (candidate.getName().equals(called)) method = candidate;
        }
        try (DataInputStream given = new DataInputStream(new FileInputStream(in));
            DataOutputStream answers = new DataOutputStream(new FileOutputStream(out))) {
            for (int count = given.readInt(); count > 0; count--) {
                Object[] inputs = new Object[method.getParameterCount()];
                for (int number = 0; number < inputs.length; number++) {
                    inputs[number] = array(method.getParameterTypes()[number], given);
                }
                Object result = method.invoke(model, inputs);
                for (Field field : result.getClass().getFields()) write(field.get(result), answers);
            }
        } finally {
            ((AutoCloseable) model).close();
        }
        return "ok";
    }

    private static Object array(Class<?> type, DataInputStream given) throws Exception {
        double[] values = new double[given.readInt()];
        for (int place = 0; place < values.length; place++) values[place] = given.readDouble();
        if (type == float[].class) {
            float[] floats = new float[values.length];
            for (int place = 0; place < floats.length; place++) floats[place] = (float) values[place];
            return floats;
        }
        if (type == int[].class) return Arrays.stream(values).mapToInt(value -> (int) (long) value).toArray();
        return Arrays.stream(values).mapToLong(value -> (long) value).toArray();
    }

    private static void write(Object answer, DataOutputStream out) throws Exception {
        String kind = answer.getClass().getSimpleName();
        if (kind.equals("ClassLabel")) {
            out.writeDouble(answer.getClass().getField("number").getInt(answer));
        } else if (kind.equals("Classes")) {
            for (float score : (float[]) answer.getClass().getMethod("scores").invoke(answer)) out.writeDouble(score);
        } else if (kind.equals("FloatTensor")) {
            for (float value : (float[]) answer.getClass().getField("values").get(answer)) out.writeDouble(value);
        } else {
            for (long value : (long[]) answer.getClass().getField("values").get(answer)) out.writeDouble(value);
        }
    }

    private static String parity(String pack, String name, String kind, String assets, String gpu) throws Exception {
        System.setProperty("litert.gpu", gpu);
        Class<?> model = Class.forName(pack + "." + name);
        byte[] golden = Files.readAllBytes(Paths.get(assets, (String) model.getField("GOLDEN_ASSET").get(null)));
        byte[] file = Files.readAllBytes(Paths.get(assets, (String) model.getField("ASSET").get(null)));
        List<Object> preferred = new ArrayList<>();
        if (!gpu.isEmpty()) preferred.add(processor(pack, "GPU"));
        for (Method method : Class.forName(pack + "." + name + "Parity").getMethods()) {
            if (!method.getName().equals("open")) continue;
            Object opener = Proxy.newProxyInstance(
                Driver.class.getClassLoader(), new Class<?>[] {method.getParameterTypes()[3]},
                (proxy, called, given) -> {
                    try {
                        return runtime(pack, name, kind, assets, given[0]);
                    } catch (InvocationTargetException error) {
                        throw new IllegalStateException(error.getCause());
                    }
                });
            Object checked = method.invoke(null, golden, file, preferred, opener);
            Object used = checked.getClass().getField("model").get(checked);
            ((AutoCloseable) used).close();
            return "passed " + checked.getClass().getField("reports").get(checked);
        }
        throw new IllegalStateException("no open");
    }

    private static String window(
        String pack, String name, String in, String out, String sources, int hop, long gap) throws Exception {
        List<String[]> axes = new ArrayList<>();
        for (String source : sources.split(";")) axes.add(source.split(","));
        try (DataInputStream given = new DataInputStream(new FileInputStream(in));
            DataOutputStream windows = new DataOutputStream(new FileOutputStream(out))) {
            Constructor<?> constructor = null;
            for (Constructor<?> candidate : Class.forName(pack + "." + name).getConstructors()) {
                if (candidate.getParameterCount() == (gap == 0 ? 3 : 4)) constructor = candidate;
            }
            int last = constructor.getParameterCount() - 1;
            Object listener = Proxy.newProxyInstance(
                Driver.class.getClassLoader(), new Class<?>[] {constructor.getParameterTypes()[last]},
                (proxy, called, values) -> {
                    windows.writeLong((Long) values[1]);
                    for (float value : (float[]) values[0]) windows.writeFloat(value);
                    return null;
                });
            Object[] all = axes.toArray(new String[0][]);
            Object window = gap == 0
                ? constructor.newInstance(all, hop, listener)
                : constructor.newInstance(all, hop, gap, listener);
            Method push = window.getClass().getMethod("push", int.class, long.class, float[].class);
            for (int count = given.readInt(); count > 0; count--) {
                int source = given.readInt();
                long time = given.readLong();
                float[] values = new float[given.readInt()];
                for (int axis = 0; axis < values.length; axis++) values[axis] = given.readFloat();
                push.invoke(window, source, time, values);
            }
        }
        return "ok";
    }

    private static String models(String assets) throws Exception {
        System.setProperty("litert.gpu", "right");
        host.Child.open = 0;
        String opening = "";
        try {
            Class<?> models = Class.forName("io.github.kerasattention.example.Models");
            Object made = models.getConstructor(AssetManager.class).newInstance(new AssetManager(assets));
            opening = models.getMethod("getFindings").invoke(made) + " open " + host.Child.open;
            ((AutoCloseable) made).close();
        } catch (InvocationTargetException error) {
            opening = error.getCause().toString();
        }
        return opening + " left " + host.Child.open;
    }

    /** The label of the best class, or what was thrown. */
    private static String best(String pack, String[] names, String[] numbers) throws Exception {
        float[] scores = new float[numbers.length];
        for (int i = 0; i < scores.length; i++) scores[i] = Float.parseFloat(numbers[i]);
        Class<?> classes = Class.forName(pack + ".Classes");
        Object holder = null;
        Class<?> owner = classes;
        for (Field field : classes.getFields()) {
            if (field.getName().equals("Companion")) {
                holder = field.get(null);
                owner = holder.getClass();
            }
        }
        Method of = owner.getDeclaredMethod("of", String[].class, float[].class);
        of.setAccessible(true);
        Object made = of.invoke(holder, names, scores);
        String getter = holder == null ? "label" : "getLabel";
        try {
            return (String) classes.getMethod(getter).invoke(made);
        } catch (InvocationTargetException thrown) {
            return thrown.getCause().getMessage();
        }
    }

    private static String labels(String name, String field, String out) throws Exception {
        Field found = Class.forName(name).getDeclaredField(field);
        found.setAccessible(true);
        Files.write(Paths.get(out), Arrays.asList((String[]) found.get(null)), StandardCharsets.UTF_8);
        return "ok";
    }
}
