// Logs in with the code of a link, which stands behind `#` and is sent to no server before.
const code = location.hash.slice(1);
const form = document.getElementById("login");
const field = document.getElementById("secret");
if (code && form instanceof HTMLFormElement && field instanceof HTMLInputElement) {
  // The code must stay neither in the address nor in the history.
  history.replaceState(null, "", location.pathname + location.search);
  field.value = code;
  form.requestSubmit();
}
