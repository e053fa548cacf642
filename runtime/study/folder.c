#include "study/folder.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

yk_status yk_study_make_folder(const char *dir, yk_err *err)
{
  char path[4096];
  size_t length = strlen(dir);
  if (length == 0 || length >= sizeof path)
    return yk_err_set(err, YK_E_INVAL, "expected the path of a directory of at most %zu bytes, found %zu bytes",
                      sizeof path - 1, length);
  memcpy(path, dir, length + 1);
  for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
    if (slash) *slash = '\0';
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return yk_err_set(err, YK_E_IO, "%s: %s", path, strerror(errno));
    if (!slash) return YK_OK;
    *slash = '/';
  }
}
