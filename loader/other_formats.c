#include "loader/other_formats.h"

#include <string.h>
#include <sys/stat.h>

#include "loader/dir.h"

static yk_status refuse_gguf(const char *file, yk_err *err)
{
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "%.80s: GGUF is not read. Use the model's safetensors directory, or convert, in Python: "
                    "AutoModelForCausalLM.from_pretrained(dir, gguf_file=file).save_pretrained(new)",
                    file);
}

yk_status yk_other_formats_check_path(const char *path, yk_err *err)
{
  static const char gguf[] = ".gguf";
  struct stat info;
  size_t length = strlen(path), n = sizeof gguf - 1;
  bool exists = stat(path, &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return YK_OK;
  const char *slash = strrchr(path, '/');
  if (exists && length > n && strcmp(path + length - n, gguf) == 0) return refuse_gguf(slash ? slash + 1 : path, err);
  return yk_err_set(err, YK_E_IO, "%s: expected a local checkpoint directory", path);
}

yk_status yk_other_formats_check_dir(const char *dir, yk_err *err)
{
  char found[256];
  if (yk_dir_find_suffix(dir, ".bin", found))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: PyTorch .bin weights are not read. Convert them to safetensors, in Python: "
                      "AutoModelForCausalLM.from_pretrained(dir).save_pretrained(dir)",
                      found);
  if (yk_dir_find_suffix(dir, ".gguf", found)) return refuse_gguf(found, err);
  if (yk_dir_find_suffix(dir, ".pth", found) || yk_dir_find_suffix(dir, ".pt", found))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: PyTorch weights are not read. Convert them to a Hugging Face safetensors directory with "
                      "the model's conversion script in transformers (convert_*_weights_to_hf.py)",
                      found);
  return YK_OK;
}
