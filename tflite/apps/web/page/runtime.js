// LiteRT in WebAssembly. Its module is used without the public wrapper, which takes no int8, bool or int64
// tensors. The build is the one without relaxed SIMD: its arithmetic is the same on every processor.

import { readAsset } from "./assets.js";

const COMPILE_OPTIONS = {
  accelerator: "wasm",
  cpuOptions: { numThreads: 1 },
  gpuOptions: {},
  webNNOptions: {},
};

/** What the runtime calls the signature of a file without one. */
const UNNAMED = "<placeholder signature>";

/** The runtime; `start` makes it. */
export class Runtime {
  /** Load the module and make its environment. */
  static async start(path) {
    if (typeof WebAssembly !== "object") {
      throw new Error("This browser has no WebAssembly, or it is switched off (Lockdown Mode does that).");
    }
    if (typeof globalThis.ModuleFactory !== "function") {
      throw new Error("The script of the LiteRT runtime was not loaded.");
    }
    const runtime = new Runtime();
    runtime.lines = [];
    const note = (line) => runtime.lines.push(String(line));
    try {
      runtime.wasm = await globalThis.ModuleFactory({
        wasmBinary: await readAsset(path),
        print: note,
        printErr: note,
      });
    } catch (error) {
      throw new Error(`The LiteRT runtime doesn't start in this browser: ${error?.message ?? error}`);
    }
    runtime.wasm.setupLogging();
    runtime.environment = runtime.wasm.LiteRtEnvironment.create(null);
    return runtime;
  }

  /** A model that is ready to run, from the bytes of its file. */
  async load(bytes) {
    const { wasm, environment } = this;
    this.lines.length = 0;
    const pointer = wasm._malloc(bytes.length);
    wasm.HEAPU8.set(bytes, pointer);
    try {
      const model = wasm.loadModel(environment, pointer, bytes.length);
      const options = { ...COMPILE_OPTIONS, environment: { liteRtEnvironment: environment } };
      const compiled = await wasm.compileModel(environment, model, options);
      return new LoadedModel(this, model, compiled);
    } catch (error) {
      wasm._free(pointer);
      throw new Error(
        "The runtime refuses the file. It is damaged, or needs operators that the runtime lacks" +
          ` (${this.lines.at(-1) ?? error?.message ?? error}).`,
      );
    }
  }
}

/** A compiled file. */
class LoadedModel {
  constructor(runtime, model, compiled) {
    Object.assign(this, { runtime, model, compiled, signatures: new Map() });
    for (let index = 0; index < model.getNumSignatures(); index += 1) {
      const signature = model.getSignature(index);
      const key = signature.key();
      this.signatures.set(key === UNNAMED ? "" : key, {
        index,
        inputs: texts(signature.inputNames()),
        outputs: texts(signature.outputNames()),
      });
    }
  }

  /** The bytes of each output by name, from the bytes of each input by name, and the milliseconds it took. */
  async run(key, inputs) {
    const signature = this.signatures.get(key);
    if (!signature) throw new Error(`The file has no signature "${key}".`);
    const buffers = [];
    let answers = [];
    try {
      for (const [at, name] of signature.inputs.entries()) {
        buffers.push(this.fill(signature.index, at, name, inputs[name]));
      }
      const start = performance.now();
      answers = await this.compiled.run(signature.index, buffers);
      const milliseconds = performance.now() - start;
      const outputs = {};
      for (const [at, name] of signature.outputs.entries()) outputs[name] = this.read(answers[at]);
      return { outputs, milliseconds };
    } finally {
      for (const buffer of [...buffers, ...answers]) buffer.delete();
    }
  }

  fill(signature, at, name, bytes) {
    const { wasm, environment } = this.runtime;
    const type = this.model.getInputTensorType(signature, at);
    try {
      if (bytes?.length !== type.bytes()) {
        throw new Error(`Input "${name}" takes ${type.bytes()} bytes, not ${bytes?.length ?? "none"}.`);
      }
      const kind = wasm.LiteRtTensorBufferType.HOST_MEMORY;
      const buffer = wasm.LiteRtTensorBuffer.createManaged(environment, kind, type, bytes.length);
      const pointer = buffer.lock(wasm.LiteRtTensorBufferLockMode.WRITE);
      wasm.HEAPU8.set(bytes, pointer);
      buffer.unlock();
      return buffer;
    } finally {
      type.delete();
    }
  }

  read(buffer) {
    const { wasm } = this.runtime;
    const pointer = buffer.lock(wasm.LiteRtTensorBufferLockMode.READ);
    const bytes = wasm.HEAPU8.slice(pointer, pointer + buffer.packedSize());
    buffer.unlock();
    return bytes;
  }
}

function texts(vector) {
  const found = Array.from({ length: vector.size() }, (_, at) => vector.get(at));
  vector.delete();
  return found;
}
