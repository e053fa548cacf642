#include "server/page.h"

#include <string.h>

const yk_embedded_file *yk_page_find(const char *path)
{
  return yk_embedded_find(yk_page_files, strcmp(path, "/") == 0 ? "/index.html" : path);
}
