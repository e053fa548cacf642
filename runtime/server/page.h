/* page.h - the static files that are compiled in, from runtime/server/page (CMakeLists.txt makes the table). */
#ifndef YK_SERVER_PAGE_H
#define YK_SERVER_PAGE_H

#include "base/embedded.h"

extern const yk_embedded_file yk_page_files[]; /* ends with a path of NULL */

/* yk_page_find - the file at a path, or NULL; "/" is index.html. */
const yk_embedded_file *yk_page_find(const char *path);

#endif
