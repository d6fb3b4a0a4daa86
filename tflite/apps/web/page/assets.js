// The page's files: fetched from beside the page, or embedded in it (base64 of gzip) where it is one file.

const GZIP = [0x1f, 0x8b];

/** The bytes of a file of the page. */
export async function readAsset(path) {
  const embedded = document.querySelector(`script[data-path="${CSS.escape(path)}"]`);
  const bytes = embedded ? await unpack(fromBase64(embedded.textContent)) : await load(path);
  // Some servers unpack .gz on the way, some don't.
  return path.endsWith(".gz") && GZIP.every((byte, at) => bytes[at] === byte) ? unpack(bytes) : bytes;
}

async function load(path) {
  let response;
  try {
    response = await fetch(path);
  } catch {
    throw new Error(
      location.protocol === "file:"
        ? "This page was opened from disk, where browsers load nothing else. Serve its folder " +
            "(python -m http.server), or write the page with --single-file."
        : `The file ${path} can't be loaded: no connection, and it is not stored on this device yet.`,
    );
  }
  if (!response.ok)
    throw new Error(`The file ${path} can't be loaded: the server answers ${response.status}.`);
  return new Uint8Array(await response.arrayBuffer());
}

/** The value in a JSON file of the page. */
export async function readJson(path) {
  return JSON.parse(new TextDecoder().decode(await readAsset(path)));
}

/** The bytes that a base64 text stands for. */
export function fromBase64(text) {
  return Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
}

async function unpack(bytes) {
  if (!globalThis.DecompressionStream) {
    throw new Error(
      "This browser can't unpack gzip: it is older than Chrome 80, Safari 16.4 or Firefox 113.",
    );
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
