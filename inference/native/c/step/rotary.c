/* RoPE with pairs half the rotated width apart, as in GPT-NeoX and transformers' rotate_half. */
#include "step/rotary.h"

void rotary_turn(float *head, const float *restrict cos, const float *restrict sin, int half)
{
    float *restrict first = head;
    float *restrict second = head + half;
    for (int i = 0; i < half; i++) {
        const float a = first[i], b = second[i];
        first[i] = a * cos[i] - b * sin[i];
        second[i] = b * cos[i] + a * sin[i];
    }
}
