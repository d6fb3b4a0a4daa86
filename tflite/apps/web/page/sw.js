// Answers every request for a file of the page from the store. A new version of the page changes VERSION,
// and so this file, which makes browsers store everything anew.

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
  if (event.request.method !== "GET") return;
  const answer = async () => {
    const cache = await caches.open(PREFIX + VERSION);
    return (await cache.match(event.request, { ignoreSearch: true })) ?? fetch(event.request);
  };
  event.respondWith(answer());
});
