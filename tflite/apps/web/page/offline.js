// Keeps the page on the device, so that it works without a network.

import { reason } from "./dom.js";

/** Start the service worker, and say in `place` what came of it. */
export async function storeForOffline(place, singleFile) {
  if (singleFile) {
    place.textContent = "This page is one file and needs no network.";
    return;
  }
  if (!navigator.serviceWorker) {
    place.textContent =
      "To keep this page for use without a network, it must be served over https or from localhost.";
    return;
  }
  const known = navigator.serviceWorker.controller !== null;
  try {
    navigator.serviceWorker.addEventListener("controllerchange", () => {
      place.textContent = known ? "A newer version of this page was stored: reload to see it." : STORED;
    });
    await navigator.serviceWorker.register("sw.js");
    await navigator.serviceWorker.ready;
    if (navigator.serviceWorker.controller) place.textContent = STORED;
  } catch (error) {
    place.textContent = `This page can't be kept for use without a network (${reason(error)}).`;
  }
}

const STORED = "Stored on this device: works without a network.";
