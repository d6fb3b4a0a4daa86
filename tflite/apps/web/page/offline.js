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
  try {
    await navigator.serviceWorker.register("sw.js");
    await navigator.serviceWorker.ready;
    place.textContent = "Stored on this device: works without a network.";
  } catch (error) {
    place.textContent = `This page can't be kept for use without a network (${reason(error)}).`;
  }
}
