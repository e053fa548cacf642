#include "cli/options/named_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options/hub_cache.h"

yk_status yk_named_model_check(const yk_named_model *model, yk_err *err)
{
  if (model->name && model->name[0]) return YK_OK;
  return yk_err_set(
      err, YK_E_INVAL,
      "expected a model, --model MODEL or the first argument: a checkpoint's directory, a KuiperLLama .bin, "
      "or a name at Hugging Face's hub; found nothing");
}

static yk_status find(yk_named_model *model, bool needs_weights, yk_err *err)
{
  const yk_hub_query query = {model->name, model->revision, model->cache, needs_weights};
  bool is_there = access(model->name, F_OK) == 0;
  int error = errno;
  if (!is_there && yk_hub_is_name(model->name)) return yk_hub_find(&query, &model->path, err);
  if (!is_there) return yk_err_set(err, YK_E_IO, "%.150s: %s", model->name, strerror(error));
  model->path = strdup(model->name);
  return model->path ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for a path");
}

yk_status yk_named_model_find(yk_named_model *model, bool needs_weights, yk_err *err)
{
  yk_err why = YK_ERR_INIT;
  if (model->path || !model->name) return YK_OK;
  if (find(model, needs_weights, &why) == YK_OK) return YK_OK;
  bool is_meant = !model->instead || strchr(model->name, '/');
  return yk_err_set(err, why.code, "%s%s%s", why.message, is_meant ? "" : "; ", is_meant ? "" : model->instead);
}

void yk_named_model_free(yk_named_model *model)
{
  free(model->path);
  model->path = NULL;
}

void yk_named_model_options(yk_named_model *model, const char *help, yk_option out[YK_NAMED_MODEL_OPTIONS])
{
  const yk_option table[YK_NAMED_MODEL_OPTIONS] = {
      {"model", "m", YK_OPTION_STRING, &model->name, "MODEL", .help = help},
      {"revision", NULL, YK_OPTION_STRING, &model->revision, "REV", .help = "branch, tag or commit of ORG/NAME",
       .fallback = "main"},
      {"download-dir", NULL, YK_OPTION_STRING, &model->cache, "DIR",
       .help = "Hugging Face's cache, with ORG/NAME; nothing is downloaded",
       .fallback = "HF_HUB_CACHE, HF_HOME/hub, else ~/.cache/huggingface/hub"},
  };
  memcpy(out, table, sizeof table);
}
