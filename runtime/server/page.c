#include "server/page.h"

#include <string.h>

const yk_page_file *yk_page_find(const char *path)
{
  if (strcmp(path, "/") == 0) path = "/index.html";
  for (const yk_page_file *file = yk_page_files; file->path; file++)
    if (strcmp(file->path, path) == 0) return file;
  return NULL;
}
