// Scrolls the side bar to the current page where that is below the part of it that can be seen.
document.addEventListener("DOMContentLoaded", () => {
  const bar = document.querySelector(".bd-sidebar-primary");
  const page = bar?.querySelector('a[aria-current="page"]');
  if (!page) return;
  const place = page.getBoundingClientRect().bottom - bar.getBoundingClientRect().top;
  if (place > bar.clientHeight) bar.scrollTop += place - bar.clientHeight / 2;
});
