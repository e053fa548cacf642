#include "chat/class_tokens.h"

#include <string.h>

typedef struct class_tokens {
  const char *name; /* without "Fast" */
  const char *bos, *eos, *unk, *pad;
} class_tokens;

/* Of the classes of BPE tokenizers. */
static const class_tokens CLASSES[] = {
    {"BloomTokenizer", "<s>", "</s>", "<unk>", "<pad>"},
    {"CodeGenTokenizer", "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL},
    {"CodeLlamaTokenizer", "<s>", "</s>", "<unk>", NULL},
    {"CohereTokenizer", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", NULL},
    {"GemmaTokenizer", "<bos>", "<eos>", "<unk>", "<pad>"},
    {"GPT2Tokenizer", "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL},
    {"GPTNeoXTokenizer", "<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL},
    {"LlamaTokenizer", "<s>", "</s>", "<unk>", NULL},
    {"Qwen2Tokenizer", NULL, "<|endoftext|>", "<|endoftext|>", "<|endoftext|>"},
};

static const class_tokens *find(const char *name)
{
  for (size_t i = 0; name && i < sizeof CLASSES / sizeof *CLASSES; i++) {
    size_t length = strlen(CLASSES[i].name);
    if (strncmp(name, CLASSES[i].name, length) != 0) continue;
    if (!name[length] || strcmp(name + length, "Fast") == 0) return &CLASSES[i];
  }
  return NULL;
}

yk_status yk_class_tokens_add(const char *tokenizer_class, json_t *tokens, yk_err *err)
{
  const class_tokens *found = find(tokenizer_class);
  if (!found) return YK_OK;
  const char *const pairs[][2] = {
      {"bos_token", found->bos}, {"eos_token", found->eos}, {"unk_token", found->unk}, {"pad_token", found->pad}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (pairs[i][1] && json_object_set_new(tokens, pairs[i][0], json_string(pairs[i][1])) != 0)
      return yk_err_set(err, YK_E_NOMEM, "no memory for the special tokens of %.60s", tokenizer_class);
  return YK_OK;
}
