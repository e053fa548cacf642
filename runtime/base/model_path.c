#include "base/model_path.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool yk_model_path_is_dir(const char *path)
{
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

yk_status yk_model_path_dir(const char *path, char out[YK_MODEL_PATH_BYTES], yk_err *err)
{
  const char *slash = strrchr(path, '/');
  size_t n = strlen(path);
  if (n >= YK_MODEL_PATH_BYTES)
    return yk_err_set(err, YK_E_INVAL, "%.80s: the path is longer than %d bytes", path, YK_MODEL_PATH_BYTES - 1);
  if (yk_model_path_is_dir(path))
    snprintf(out, YK_MODEL_PATH_BYTES, "%s", path);
  else if (!slash)
    snprintf(out, YK_MODEL_PATH_BYTES, ".");
  else
    snprintf(out, YK_MODEL_PATH_BYTES, "%.*s", slash == path ? 1 : (int)(slash - path), path);
  return YK_OK;
}
