#include "base/embedded.h"

#include <string.h>

const yk_embedded_file *yk_embedded_find(const yk_embedded_file *table, const char *path)
{
  for (const yk_embedded_file *file = table; file->path; file++)
    if (strcmp(file->path, path) == 0) return file;
  return NULL;
}
