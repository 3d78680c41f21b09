// Tables that are wider than the window scroll; the keyboard must reach them.
for (const each of document.querySelectorAll(".table-wrapper")) each.tabIndex = 0;
