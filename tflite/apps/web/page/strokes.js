// From the strokes of a pen to the pixels that the model was trained on.
//
// Sets of drawn signs are made alike: bitmaps of several times the size, the sign scaled to a box, and each
// pixel the count of ink in its block (scikit-learn's digits: 32 x 32, blocks of 4 x 4). Where the box lies
// and how much ink there is, the bundled samples tell.

const BLOCK = 4;
const NARROW = 0.35;
const RADIUS_STEP = 0.125;

/**
 * How signs lie in the samples: `box` in shares of the image, `ink` as a share of all pixels.
 *
 * Args: images as arrays of `height * width` numbers from 0 (paper) to 1 (ink).
 */
export function styleOf(images, height, width) {
  const found = images.filter((image) => image.some((ink) => ink > 0));
  if (!found.length) return { box: { top: 0.1, bottom: 0.9, left: 0.1, right: 0.9 }, ink: 0.2 };
  const boxes = found.map((image) => {
    const [top, bottom] = extent(image, height, (at) => Math.floor(at / width));
    const [left, right] = extent(image, width, (at) => at % width);
    return { top, bottom, left, right };
  });
  const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
  const box = {};
  for (const side of Object.keys(boxes[0])) box[side] = mean(boxes.map((one) => one[side]));
  return { box, ink: mean(found.map(mean)) };
}

/** Where the ink starts and ends along an axis; a pixel that is half ink ends in its middle. */
function extent(image, length, place) {
  const most = new Float64Array(length);
  image.forEach((ink, at) => (most[place(at)] = Math.max(most[place(at)], ink)));
  const first = most.findIndex((ink) => ink > 0);
  const last = most.findLastIndex((ink) => ink > 0);
  return [(first + 1 - most[first]) / length, (last + most[last]) / length];
}

/** Pixels from 0 to 1, `height * width` of them, of strokes: lists of [x, y] with y downwards, any unit. */
export function rasterize(strokes, height, width, style) {
  const points = strokes.flat();
  if (!points.length) return new Float64Array(height * width);
  const box = {
    top: style.box.top * height * BLOCK,
    bottom: style.box.bottom * height * BLOCK,
    left: style.box.left * width * BLOCK,
    right: style.box.right * width * BLOCK,
  };
  const least = Math.min(box.bottom - box.top, box.right - box.left);
  let pixels;
  // The thinnest pen that leaves as much ink as the samples have.
  for (let radius = 1; radius <= least / 4; radius += RADIUS_STEP) {
    pixels = draw(place(strokes, points, box, radius), height, width, radius);
    if (pixels.reduce((sum, ink) => sum + ink, 0) >= style.ink * pixels.length) break;
  }
  return pixels ?? draw(place(strokes, points, box, 1), height, width, 1);
}

/** The strokes scaled so that their ink fills the box; what is narrow stays so, and stands in the middle. */
function place(strokes, points, box, radius) {
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const [left, top] = [Math.min(...xs), Math.min(...ys)];
  const [width, height] = [Math.max(...xs) - left, Math.max(...ys) - top];
  const room = { x: box.right - box.left - 2 * radius, y: box.bottom - box.top - 2 * radius };
  const [scaleX, scaleY] = [room.x / (width || 1e-9), room.y / (height || 1e-9)];
  const even = Math.min(scaleX, scaleY);
  const x = width < NARROW * height ? even : scaleX;
  const y = height < NARROW * width ? even : scaleY;
  const middle = { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 };
  return strokes.map((stroke) =>
    stroke.map((point) => [
      middle.x + (point[0] - left - width / 2) * x,
      middle.y + (point[1] - top - height / 2) * y,
    ]),
  );
}

/** The share of each block that a round pen inks. */
function draw(strokes, height, width, radius) {
  const pixels = new Float64Array(height * width);
  const columns = width * BLOCK;
  for (let at = 0; at < height * BLOCK * columns; at += 1) {
    const [row, column] = [Math.floor(at / columns), at % columns];
    if (strokes.some((stroke) => distance(stroke, column + 0.5, row + 0.5) <= radius)) {
      pixels[Math.floor(row / BLOCK) * width + Math.floor(column / BLOCK)] += 1 / BLOCK ** 2;
    }
  }
  return pixels;
}

function distance(stroke, x, y) {
  let least = Infinity;
  for (let at = 0; at < stroke.length; at += 1) {
    const [fromX, fromY] = stroke[at];
    const [toX, toY] = stroke[Math.min(at + 1, stroke.length - 1)];
    const [alongX, alongY] = [toX - fromX, toY - fromY];
    const length = alongX ** 2 + alongY ** 2;
    const share = length
      ? Math.min(1, Math.max(0, ((x - fromX) * alongX + (y - fromY) * alongY) / length))
      : 0;
    least = Math.min(least, Math.hypot(x - fromX - share * alongX, y - fromY - share * alongY));
  }
  return least;
}
