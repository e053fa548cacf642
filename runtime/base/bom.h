/* bom.h - the UTF-8 byte order mark that some editors put at the start of a file. */
#ifndef YK_BASE_BOM_H
#define YK_BASE_BOM_H

#include <stddef.h>
#include <string.h>

/* yk_bom_bytes - the length of the mark at the start of a text of n_bytes: 3, or 0 if there is none. */
static inline size_t yk_bom_bytes(const char *text, size_t n_bytes)
{
  return n_bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

#endif
