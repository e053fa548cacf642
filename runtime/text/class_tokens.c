#include "text/class_tokens.h"

#include <string.h>

/* The classes of BPE tokenizers. */
static const yk_class_tokens CLASSES[] = {
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

const yk_class_tokens *yk_class_tokens_find(const char *name)
{
  for (size_t i = 0; name && i < sizeof CLASSES / sizeof *CLASSES; i++) {
    size_t length = strlen(CLASSES[i].name);
    if (strncmp(name, CLASSES[i].name, length) != 0) continue;
    if (!name[length] || strcmp(name + length, "Fast") == 0) return &CLASSES[i];
  }
  return NULL;
}
