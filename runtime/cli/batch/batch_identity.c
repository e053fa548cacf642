#include "cli/batch/batch_identity.h"

#include <string.h>

#include "base/hash.h"
#include "base/model_identity.h"
#include "base/model_path.h"

/* Hashes a template by its text, independent of the file's path; hashes nothing if no option is given. */
static yk_status hash_chat(const yk_template_options *chat, uint32_t *hash, yk_err *err)
{
  const char *text = chat->chat_template, *parser = chat->tool_parser, *reasoning = chat->reasoning_parser;
  if (parser) *hash = yk_hash(yk_hash(*hash, "parser", 7), parser, strlen(parser) + 1);
  if (reasoning) *hash = yk_hash(yk_hash(*hash, "reasoning", 9), reasoning, strlen(reasoning) + 1);
  if (chat->kwargs_text) *hash = yk_hash(yk_hash(*hash, "kwargs", 7), chat->kwargs_text, strlen(chat->kwargs_text) + 1);
  if (!text) return YK_OK;
  *hash = yk_hash(*hash, "template", 9);
  if (strncmp(text, "builtin:", 8) == 0) {
    *hash = yk_hash(*hash, text, strlen(text) + 1);
    return YK_OK;
  }
  yk_status status = yk_file_hash(text, hash, err);
  if (status != YK_OK) yk_err_prefix(err, "--chat-template");
  return status;
}

yk_status yk_batch_identity(const yk_model_options *model, const yk_sampling_options *sampling,
                            const yk_template_options *chat, uint32_t *out, yk_err *err)
{
  char templates[YK_MODEL_PATH_BYTES];
  uint32_t hash = yk_sampling_options_hash(sampling, YK_HASH_START);
  hash = yk_hash(hash, &model->dtype, sizeof model->dtype);
  hash = yk_hash(hash, &model->kv_cache_dtype, sizeof model->kv_cache_dtype);
  hash = yk_hash(hash, &model->activations, sizeof model->activations);
  hash = yk_hash(hash, &model->lm_head, sizeof model->lm_head);
  hash = yk_hash(hash, &model->seed, sizeof model->seed);
  hash = yk_model_options_hash(model, hash);
  YK_TRY(yk_model_identity(model->checkpoint.path, &hash, err));
  if (model->tokenizer.path) YK_TRY(yk_model_identity(model->tokenizer.path, &hash, err));
  YK_TRY(yk_model_path_dir(yk_model_options_tokenizer(model), templates, err));
  YK_TRY(yk_model_file_identity(templates, "additional_chat_templates/tool_use.jinja", &hash, err));
  YK_TRY(hash_chat(chat, &hash, err));
  *out = hash;
  return YK_OK;
}
