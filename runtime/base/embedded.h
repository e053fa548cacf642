/* embedded.h - static files compiled into the program: embed.cmake writes a folder as a table of files. */
#ifndef YK_BASE_EMBEDDED_H
#define YK_BASE_EMBEDDED_H

#include <stddef.h>

typedef struct yk_embedded_file {
  const char *path; /* "/app.js" */
  const char *content_type;
  const unsigned char *bytes; /* [n_bytes], followed by a NUL */
  size_t n_bytes;
} yk_embedded_file;

/* yk_embedded_find - the file of a path in a table, which ends with a NULL path; NULL if there is none. */
const yk_embedded_file *yk_embedded_find(const yk_embedded_file *table, const char *path);

#endif
