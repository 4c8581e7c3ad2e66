//! A red-black tree of timers, whose nodes are in one table.
//!
//! Insertion, removal and rebalancing follow T. Cormen et al., *Introduction to Algorithms*, as in
//! nginx. Left and right are indices, so each case is written once and not mirrored.
//!
//! The root of the tree is the left child of its *head*, a node that is not a timer. So the root is
//! a child like any other, and a rotation there is no special case. All leaves are one node,
//! [`NIL`]. If a timer is on a heap of overdue timers, its node stores the place on that heap.

#[cfg(test)]
mod tests;

use crate::blocks::Blocks;
use crate::keyed_heap::{Place, Places};
use crate::rows::Rows;

/// The leaf, which stands for every missing child: black, and not a timer.
const NIL: u32 = 0;

/// The parent of the root.
const HEAD: u32 = 1;

const FIRST_TIMER: u32 = 2;

/// Number of nodes in a block: 3 KiB.
const BLOCK: usize = 128;

const LEFT: usize = 0;
const RIGHT: usize = 1;

#[derive(Clone, Debug)]
pub(super) struct RedBlackTree {
    /// The rows of ids. The timer of an id is `nodes[FIRST_TIMER + row]`.
    rows: Rows,
    // Invariant: it has a node for each row. The tree is ordered by deadline and then by insertion;
    // no red node has a red child; all paths down from a node pass the same number of black nodes.
    nodes: Blocks<Node, BLOCK>,
    // Invariant: the leftmost node of the tree; `NIL` if it is empty.
    first: u32,
    /// The last node is cached. A timeout that counts from now is mostly the latest deadline, and
    /// its node is then appended without a walk.
    // Invariant: the rightmost node of the tree; `NIL` if it is empty.
    last: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Spot {
    Unarmed,
    InTree,
    OnHeap(Place),
}

impl RedBlackTree {
    /// An empty tree, with memory for the timers of `ids` ids.
    pub(super) fn with_capacity(ids: usize) -> Self {
        let mut tree = Self {
            rows: Rows::with_capacity(ids),
            nodes: Blocks::new(),
            first: NIL,
            last: NIL,
        };
        tree.cover();
        (*tree.at_mut(NIL), *tree.at_mut(HEAD)) = (Node::EMPTY, Node::EMPTY);
        tree
    }

    fn cover(&mut self) {
        let len = FIRST_TIMER as usize + self.rows.len();
        self.nodes.cover(len, Node::UNLINKED);
    }

    /// Returns the node of a timer, linked or not. The table grows to hold the node.
    #[inline]
    pub(super) fn admit(&mut self, id: u32) -> u32 {
        match self.find(id) {
            Some(node) => node,
            None => self.grow(id),
        }
    }

    /// Links an unlinked timer, behind all timers that are due at or before `deadline`.
    pub(super) fn insert(&mut self, node: u32, deadline: u64) {
        let is_last = self.last == NIL || deadline >= self.deadline(self.last);
        let (parent, side) = match self.last {
            NIL => (HEAD, LEFT),
            last if is_last => (last, RIGHT),
            _ => self.place_of(deadline),
        };
        *self.at_mut(node) = Node {
            deadline,
            up: Up::red(parent),
            children: [NIL; 2],
        };
        self.at_mut(parent).children[side] = node;
        if side == LEFT && (parent == self.first || parent == HEAD) {
            self.first = node;
        }
        if is_last {
            self.last = node;
        }
        self.repair_below_red(node);
    }

    /// The parent and the side for a timer that is due before the last of the tree.
    fn place_of(&self, deadline: u64) -> (u32, usize) {
        let (mut parent, mut side) = (HEAD, LEFT);
        let mut below = self.child(parent, side);
        while below != NIL {
            parent = below;
            let node = self.at(below);
            side = usize::from(deadline >= node.deadline);
            below = node.children[side];
        }
        (parent, side)
    }

    /// Unlinks a timer. The node still looks linked, so insert it again or
    /// [`release`](Self::release) it.
    pub(super) fn remove(&mut self, node: u32) {
        if self.first == node {
            self.first = self.successor_of_first(node);
        }
        if self.last == node {
            self.last = self.predecessor_of_last(node);
        }
        let [left, right] = self.at(node).children;
        let (lost_black, parent, side) = if left == NIL || right == NIL {
            let (parent, side) = (self.parent(node), self.side(node));
            // At least one child is the leaf, which has the lowest number.
            self.adopt(parent, side, left.max(right));
            (self.is_black(node), parent, side)
        } else {
            self.replace_by_successor(node)
        };
        if lost_black {
            self.repair_lost_black(parent, side);
        }
    }

    /// Marks a removed timer as unlinked.
    #[inline]
    pub(super) fn release(&mut self, node: u32) {
        self.at_mut(node).up = Up::UNLINKED;
    }

    pub(super) fn clear(&mut self) {
        self.nodes.fill(Node::UNLINKED);
        (*self.at_mut(NIL), *self.at_mut(HEAD)) = (Node::EMPTY, Node::EMPTY);
        (self.first, self.last) = (NIL, NIL);
    }

    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<u32> {
        Some(self.rows.find(id)? + FIRST_TIMER)
    }

    #[inline]
    pub(super) fn spot(&self, node: u32) -> Spot {
        let node = self.at(node);
        match node.up {
            Up::UNLINKED => Spot::Unarmed,
            Up::ON_HEAP => Spot::OnHeap(Place::from_bits(node.children[0])),
            _ => Spot::InTree,
        }
    }

    #[inline]
    pub(super) fn id(&self, node: u32) -> u32 {
        debug_assert!(node >= FIRST_TIMER, "{node} is not a timer");
        self.rows.id(node - FIRST_TIMER)
    }

    #[inline]
    pub(super) fn deadline(&self, node: u32) -> u64 {
        self.at(node).deadline
    }

    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    /// The node that follows the first of the tree, or `NIL`.
    fn successor_of_first(&self, first: u32) -> u32 {
        let right = self.child(first, RIGHT);
        if right != NIL {
            return self.outermost(right, LEFT);
        }
        // The first node has no left child, so its parent is next unless that is the head.
        let parent = self.parent(first);
        if parent < FIRST_TIMER { NIL } else { parent }
    }

    /// The node before the last of the tree, or `NIL`.
    fn predecessor_of_last(&self, last: u32) -> u32 {
        let left = self.child(last, LEFT);
        if left != NIL {
            return self.outermost(left, RIGHT);
        }
        // The last node has no right child.
        let parent = self.parent(last);
        if parent < FIRST_TIMER { NIL } else { parent }
    }

    /// The last node on the way down one side.
    fn outermost(&self, mut node: u32, side: usize) -> u32 {
        loop {
            match self.child(node, side) {
                NIL => return node,
                below => node = below,
            }
        }
    }

    /// Replaces `node`, which has two children, by its successor, which takes over its colour.
    /// Returns whether a black node is missing now, and the parent and the side where it is
    /// missing.
    fn replace_by_successor(&mut self, node: u32) -> (bool, u32, usize) {
        let Node {
            up,
            children: [left, right],
            ..
        } = *self.at(node);
        let next = self.outermost(right, LEFT);
        let lost_black = self.is_black(next);
        let gap = if next == right {
            (next, RIGHT)
        } else {
            let parent = self.parent(next);
            self.adopt(parent, LEFT, self.child(next, RIGHT));
            self.adopt(next, RIGHT, right);
            (parent, LEFT)
        };
        self.adopt(next, LEFT, left);
        self.adopt(up.parent(), self.side(node), next);
        self.at_mut(next).up = up;
        (lost_black, gap.0, gap.1)
    }

    /// Repairs the tree above `node`, which is red, if its parent is red too.
    fn repair_below_red(&mut self, mut node: u32) {
        loop {
            let parent = self.parent(node);
            if self.is_black(parent) {
                break;
            }
            // A red node is not the root, so it has a parent.
            let grandparent = self.parent(parent);
            let side = self.side(parent);
            let uncle = self.child(grandparent, 1 - side);
            if self.is_black(uncle) {
                let top = if self.side(node) == side {
                    parent
                } else {
                    self.rotate(parent, side);
                    node
                };
                self.paint_black(top);
                self.paint_red(grandparent);
                self.rotate(grandparent, 1 - side);
                return;
            }
            self.paint_black(parent);
            self.paint_black(uncle);
            self.paint_red(grandparent);
            node = grandparent;
        }
        if self.parent(node) < FIRST_TIMER {
            self.paint_black(node);
        }
    }

    /// Repairs the tree if a black node is missing on one side of `parent`.
    fn repair_lost_black(&mut self, mut parent: u32, mut side: usize) {
        loop {
            let short = self.child(parent, side);
            if !self.is_black(short) {
                self.paint_black(short);
                return;
            }
            if parent < FIRST_TIMER {
                // At the root all paths are shorter by one.
                return;
            }
            let sibling = self.black_sibling(parent, side);
            if self.has_red_child(sibling) {
                self.borrow_black(parent, side, sibling);
                return;
            }
            self.paint_red(sibling);
            side = self.side(parent);
            parent = self.parent(parent);
        }
    }

    /// Returns the sibling on the other side of `parent`. If it is red, a rotation first makes it
    /// black.
    fn black_sibling(&mut self, parent: u32, side: usize) -> u32 {
        let sibling = self.child(parent, 1 - side);
        if self.is_black(sibling) {
            return sibling;
        }
        self.paint_black(sibling);
        self.paint_red(parent);
        self.rotate(parent, side);
        self.child(parent, 1 - side)
    }

    /// Moves a red node from the sibling's side to the short side, and makes it black.
    fn borrow_black(&mut self, parent: u32, side: usize, sibling: u32) {
        let far = self.child(sibling, 1 - side);
        let top = if self.is_black(far) {
            self.rotate(sibling, 1 - side);
            self.child(parent, 1 - side)
        } else {
            self.paint_black(far);
            sibling
        };
        if self.is_black(parent) {
            self.paint_black(top);
        } else {
            self.paint_red(top);
        }
        self.paint_black(parent);
        self.rotate(parent, side);
    }

    /// Rotates `node` down to `side`. Its child on the other side takes its place.
    fn rotate(&mut self, node: u32, side: usize) {
        let (parent, place) = (self.parent(node), self.side(node));
        let rising = self.child(node, 1 - side);
        self.adopt(node, 1 - side, self.child(rising, side));
        self.adopt(rising, side, node);
        self.adopt(parent, place, rising);
    }

    /// Makes `child` a child of `parent`; both keep their colour.
    #[inline]
    fn adopt(&mut self, parent: u32, side: usize, child: u32) {
        self.at_mut(parent).children[side] = child;
        // This also writes the parent of the leaf, which is never read.
        let node = self.at_mut(child);
        node.up = node.up.with_parent(parent);
    }

    #[inline]
    fn side(&self, node: u32) -> usize {
        usize::from(self.child(self.parent(node), RIGHT) == node)
    }

    fn has_red_child(&self, node: u32) -> bool {
        !self
            .at(node)
            .children
            .iter()
            .all(|&child| self.is_black(child))
    }

    #[inline]
    fn child(&self, node: u32, side: usize) -> u32 {
        self.at(node).children[side]
    }

    #[inline]
    fn parent(&self, node: u32) -> u32 {
        self.at(node).up.parent()
    }

    #[inline]
    fn is_black(&self, node: u32) -> bool {
        !self.at(node).up.is_red()
    }

    #[inline]
    fn paint_black(&mut self, node: u32) {
        let parent = self.parent(node);
        self.at_mut(node).up = Up::black(parent);
    }

    #[inline]
    fn paint_red(&mut self, node: u32) {
        let parent = self.parent(node);
        self.at_mut(node).up = Up::red(parent);
    }

    #[inline]
    fn at(&self, node: u32) -> &Node {
        self.nodes.at(node)
    }

    #[inline]
    fn at_mut(&mut self, node: u32) -> &mut Node {
        self.nodes.at_mut(node)
    }

    #[cold]
    fn grow(&mut self, id: u32) -> u32 {
        let row = self.rows.admit(id);
        self.cover();
        row + FIRST_TIMER
    }
}

impl Places for RedBlackTree {
    fn set_place(&mut self, node: u32, place: Place) {
        let node = self.at_mut(node);
        node.up = Up::ON_HEAP;
        node.children[0] = place.bits();
    }
}

/// A timer, the head or the leaf.
#[derive(Clone, Copy, Debug)]
struct Node {
    deadline: u64,
    up: Up,
    children: [u32; 2],
}

impl Node {
    const UNLINKED: Self = Self {
        deadline: 0,
        up: Up::UNLINKED,
        children: [NIL; 2],
    };

    /// The leaf, or the head of the empty tree.
    const EMPTY: Self = Self {
        up: Up::black(NIL),
        ..Self::UNLINKED
    };
}

/// The parent of a node, and in the highest bit the node's own colour.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Up(u32);

impl Up {
    const RED: u32 = 1 << 31;

    /// The value for an unlinked timer. No parent has this number, because no table is that long.
    const UNLINKED: Self = Self(u32::MAX);

    /// The value for a timer that is on a heap.
    const ON_HEAP: Self = Self(u32::MAX - 1);

    const fn red(parent: u32) -> Self {
        Self(parent | Self::RED)
    }

    const fn black(parent: u32) -> Self {
        Self(parent)
    }

    #[inline]
    const fn with_parent(self, parent: u32) -> Self {
        Self(parent | (self.0 & Self::RED))
    }

    #[inline]
    const fn parent(self) -> u32 {
        self.0 & !Self::RED
    }

    #[inline]
    const fn is_red(self) -> bool {
        self.0 & Self::RED != 0
    }
}

#[cfg(test)]
impl RedBlackTree {
    /// Checks the invariants, and returns the number of timers in the tree.
    pub(super) fn verify(&self) -> usize {
        assert!(self.is_black(NIL), "the leaf is red");
        self.verify_tree();
        let linked = self.deadlines().count();
        assert_eq!(
            self.count(|spot| spot == Spot::InTree),
            linked,
            "a timer is marked as linked and is not in the tree"
        );
        linked
    }

    pub(super) fn count(&self, is_counted: impl Fn(Spot) -> bool) -> usize {
        let nodes = u32::try_from(self.nodes.len()).unwrap();
        (FIRST_TIMER..nodes)
            .filter(|&node| is_counted(self.spot(node)))
            .count()
    }

    pub(super) fn deadlines(&self) -> impl Iterator<Item = u64> + '_ {
        let mut path = Vec::new();
        let mut below = self.child(HEAD, LEFT);
        std::iter::from_fn(move || {
            while below != NIL {
                path.push(below);
                below = self.child(below, LEFT);
            }
            let node = path.pop()?;
            below = self.child(node, RIGHT);
            Some(self.deadline(node))
        })
    }

    fn verify_tree(&self) {
        let root = self.child(HEAD, LEFT);
        assert!(self.is_black(root), "the root is red");
        assert_eq!(self.child(HEAD, RIGHT), NIL, "the head has one child");
        assert_eq!(self.first, self.outermost(root, LEFT), "first of the tree");
        assert_eq!(self.last, self.outermost(root, RIGHT), "last of the tree");
        assert!(self.deadlines().is_sorted(), "the tree is out of order");
        self.verify_below(HEAD, root);
    }

    /// Checks a subtree, and returns the number of black nodes on each path down.
    fn verify_below(&self, parent: u32, node: u32) -> u32 {
        if node == NIL {
            return 0;
        }
        assert_eq!(self.parent(node), parent, "parent of {node}");
        assert!(
            self.is_black(node) || self.is_black(parent),
            "{node} and its parent are red"
        );
        let heights = self
            .at(node)
            .children
            .map(|child| self.verify_below(node, child));
        assert_eq!(heights[LEFT], heights[RIGHT], "black heights below {node}");
        heights[LEFT] + u32::from(self.is_black(node))
    }
}
