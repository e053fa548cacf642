#include "base/gguf.h"

#include <string.h>
#include <sys/stat.h>

bool yk_gguf_is_file(const char *path)
{
  static const char suffix[] = ".gguf";
  struct stat info;
  size_t length = strlen(path), n = sizeof suffix - 1;
  return length > n && strcmp(path + length - n, suffix) == 0 && stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
}

yk_status yk_gguf_refuse(const char *path, yk_err *err)
{
  const char *slash = strrchr(path, '/');
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "%.80s: GGUF is not read. Use the model's safetensors directory, or convert, in Python: "
                    "AutoModelForCausalLM.from_pretrained(dir, gguf_file=file).save_pretrained(new)",
                    slash ? slash + 1 : path);
}
