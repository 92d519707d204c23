/* Positions: a head's values are turned in pairs. */
#ifndef ROTARY_H
#define ROTARY_H

/* Turn head[i] and head[half + i] by the angle whose cosine and sine are cos[i] and sin[i], for i < half. */
void rotary_turn(float *head, const float *cos, const float *sin, int half);

#endif
