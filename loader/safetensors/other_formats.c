#include "loader/safetensors/other_formats.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/gguf.h"
#include "loader/safetensors/dir.h"

static yk_status refuse_pointer(const char *path, yk_err *err)
{
  char begin[64];
  int fd;
  size_t n_bytes;
  if (yk_file_open(path, &fd, &n_bytes, NULL) != YK_OK) return YK_OK;
  ssize_t n = pread(fd, begin, sizeof begin, 0);
  close(fd);
  return n > 0 ? yk_file_refuse_lfs(path, begin, (size_t)n, "weights", err) : YK_OK;
}

yk_status yk_other_formats_check_path(const char *path, yk_err *err)
{
  struct stat info;
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return YK_OK;
  if (yk_gguf_is_file(path)) return yk_gguf_refuse(path, err);
  YK_TRY(refuse_pointer(path, err));
  return yk_err_set(err, YK_E_IO, "%s: expected a local checkpoint directory or a KuiperLLama file", path);
}

yk_status yk_other_formats_check_mistral(const char *dir, yk_err *err)
{
  char first[256], last[256];
  const bool has_weights = yk_dir_find_all(dir, "consolidated", ".safetensors", first, last) > 0;
  if (!has_weights && (!yk_dir_has(dir, "params.json") || yk_dir_find_suffix(dir, ".safetensors", first))) return YK_OK;
  return yk_err_set(
      err, YK_E_UNSUPPORTED,
      "%.60s: Mistral's own format (params.json, consolidated*.safetensors) is not read: use "
      "config.json, model*.safetensors and tokenizer.json of the repository, or make them with transformers' script "
      "(convert_*_weights_to_hf.py)",
      dir);
}

yk_status yk_other_formats_check_dir(const char *dir, yk_err *err)
{
  char found[256];
  if (yk_dir_find_suffix(dir, ".bin", found))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: PyTorch .bin weights are not read. Convert them to safetensors, in Python: "
                      "AutoModelForCausalLM.from_pretrained(dir).save_pretrained(dir)",
                      found);
  YK_TRY(yk_other_formats_check_mistral(dir, err));
  if (yk_dir_find_suffix(dir, ".gguf", found)) return yk_gguf_refuse(found, err);
  if (yk_dir_find_suffix(dir, ".pth", found) || yk_dir_find_suffix(dir, ".pt", found))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: PyTorch weights are not read. Convert them to a Hugging Face safetensors directory with "
                      "the model's conversion script in transformers (convert_*_weights_to_hf.py)",
                      found);
  return YK_OK;
}
