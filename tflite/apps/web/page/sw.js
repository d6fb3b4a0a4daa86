// Keeps the files of the page, and answers from them where there is no network. A new version of the page
// changes VERSION, and so this file, which makes browsers store everything anew.

const VERSION = "@VERSION@";
const FILES = "@FILES@".split(" ");
const PREFIX = `keras-attention ${registration.scope} `;

addEventListener("install", (event) => {
  skipWaiting();
  const requests = FILES.map((file) => new Request(file, { cache: "reload" }));
  event.waitUntil(caches.open(PREFIX + VERSION).then((cache) => cache.addAll(requests)));
});

addEventListener("activate", (event) => {
  const clean = async () => {
    const old = (await caches.keys()).filter((name) => name.startsWith(PREFIX) && name !== PREFIX + VERSION);
    await Promise.all(old.map((name) => caches.delete(name)));
    await clients.claim();
  };
  event.waitUntil(clean());
});

addEventListener("fetch", (event) => {
  if (event.request.method === "GET") event.respondWith(answer(event.request));
});

async function answer(request) {
  const cache = await caches.open(PREFIX + VERSION);
  const stored = await cache.match(request, { ignoreSearch: true });
  if (!stored) return fetch(request);
  try {
    // Asked anew each time: servers that say nothing of caching let browsers keep files for days.
    const fresh = await fetch(request, { cache: "no-cache" });
    return fresh.ok ? fresh : stored;
  } catch {
    return stored; // no network
  }
}
