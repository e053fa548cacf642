/* page.h - the static files of runtime/server/page, compiled in (CMakeLists.txt generates the table). */
#ifndef YK_SERVER_PAGE_H
#define YK_SERVER_PAGE_H

#include "base/embedded.h"

extern const yk_embedded_file yk_page_files[]; /* terminated by a NULL path */

/* yk_page_find - the file at a path, or NULL; "/" is index.html. */
const yk_embedded_file *yk_page_find(const char *path);

#endif
