/* A copy button on every block of code; nothing is loaded. */
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.innerText.replace(/^\$ /gm, ""));
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.parentElement.append(button);
  }
});
