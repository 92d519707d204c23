/* Rotary position embedding (RoPE). */
#ifndef ROTARY_H
#define ROTARY_H

/* Rotate the pairs (head[i], head[half + i]), i < half, by the angles with these cosines and sines, in place. */
void rotary_turn(float *head, const float *cos, const float *sin, int half);

#endif
