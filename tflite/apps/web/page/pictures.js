// Pictures as numbers and back.

/** RGBA pixels of a picture file, cut to the middle and brought to the size of the model's image. */
export async function readPicture(file, height, width) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error(`"${file.name}" is no picture that this browser can open.`);
  }
  const scale = Math.min(bitmap.width / width, bitmap.height / height);
  const [cutWidth, cutHeight] = [width * scale, height * scale];
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  context.imageSmoothingQuality = "high";
  context.drawImage(
    bitmap,
    (bitmap.width - cutWidth) / 2,
    (bitmap.height - cutHeight) / 2,
    cutWidth,
    cutHeight,
    0,
    0,
    width,
    height,
  );
  bitmap.close();
  return context.getImageData(0, 0, width, height).data;
}

/** RGBA bytes as values from 0 to 1 with so many channels. */
export function fromRgba(bytes, channels) {
  const values = new Float64Array((bytes.length / 4) * channels);
  for (let at = 0; at < bytes.length / 4; at += 1) {
    const [red, green, blue, alpha] = bytes.subarray(4 * at, 4 * at + 4);
    const colours = channels === 1 ? [0.299 * red + 0.587 * green + 0.114 * blue] : [red, green, blue, alpha];
    for (let channel = 0; channel < channels; channel += 1)
      values[at * channels + channel] = colours[channel] / 255;
  }
  return values;
}

/** Show values from 0 to 1 on a canvas, one canvas pixel each, with the attention over them. */
export function paint(canvas, values, height, width, channels, attention = null) {
  [canvas.width, canvas.height] = [width, height];
  const bytes = new Uint8ClampedArray(height * width * 4);
  for (let at = 0; at < height * width; at += 1) {
    for (let colour = 0; colour < 3; colour += 1) {
      bytes[4 * at + colour] = 255 * values[at * channels + (channels === 1 ? 0 : colour)];
    }
    bytes[4 * at + 3] = 255;
    if (attention) tint(bytes, at, attention, Math.floor(at / width) / height, (at % width) / width);
  }
  canvas.getContext("2d").putImageData(new ImageData(bytes, width, height), 0, 0);
}

const TINT = [255, 106, 0];
const STRENGTH = 0.65;

function tint(bytes, at, { rows, columns, weights }, down, right) {
  const weight = STRENGTH * weights[Math.floor(down * rows) * columns + Math.floor(right * columns)];
  for (let colour = 0; colour < 3; colour += 1) {
    bytes[4 * at + colour] += weight * (TINT[colour] - bytes[4 * at + colour]);
  }
}
