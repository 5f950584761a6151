// eq_data: what its 12 entries an equality mean, by the equality's type, and where they are in the field. Entries that mean
// nothing to a type hold MuJoCo's defaults; those of ends at sites are not read.
#ifndef PB_EQUALITY_DATA_H
#define PB_EQUALITY_DATA_H

enum {
  pb_eqDataSize = 12,
  // connect: the anchor, in the axes of body 1 and of body 2
  pb_connectAnchor = 0,
  // weld: the anchor in the axes of body 2 and of body 1 (in this order), orientation of body 2 in body 1, scale of the
  // rotational rows, and whether the relative pose follows from the reference configuration (not 0) or was given
  pb_weldAnchor = 0,
  pb_weldRelquat = 6,
  pb_weldTorquescale = 10,
  pb_weldFollows = 11,
  // joint, tendon: coefficients c0 to c4 of the polynomial that couples the first to the second
  pb_couplingPolycoef = 0,
};

// Index into eq_data of an equality's first entry, and of its named ones. end: 0 for the equality's first body, 1 for its second.
static inline int pbEquality_Data(int equality) { return pb_eqDataSize * equality; }
static inline int pbConnect_Anchor(int equality, int end) { return pbEquality_Data(equality) + pb_connectAnchor + 3 * end; }
static inline int pbWeld_Anchor(int equality, int end) { return pbEquality_Data(equality) + pb_weldAnchor + 3 * (1 - end); }
static inline int pbWeld_Relquat(int equality) { return pbEquality_Data(equality) + pb_weldRelquat; }
static inline int pbWeld_Torquescale(int equality) { return pbEquality_Data(equality) + pb_weldTorquescale; }
static inline int pbWeld_Follows(int equality) { return pbEquality_Data(equality) + pb_weldFollows; }
static inline int pbCoupling_Polycoef(int equality) { return pbEquality_Data(equality) + pb_couplingPolycoef; }

#endif
