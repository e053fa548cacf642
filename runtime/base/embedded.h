/* embedded.h - static files that are compiled in: embed.cmake writes a folder as a table of them. */
#ifndef YK_BASE_EMBEDDED_H
#define YK_BASE_EMBEDDED_H

#include <stddef.h>

typedef struct yk_embedded_file {
  const char *path; /* "/app.js" */
  const char *content_type;
  const unsigned char *bytes; /* [n_bytes], and a NUL behind them */
  size_t n_bytes;
} yk_embedded_file;

/* yk_embedded_find - the file of a path in a table, which ends with a path of NULL; NULL where there is none. */
const yk_embedded_file *yk_embedded_find(const yk_embedded_file *table, const char *path);

#endif
