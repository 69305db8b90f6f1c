//! The subset of XML that a CIB uses: elements, attributes, no text.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// Deepest nesting that is read: a CIB's status section needs about ten.
const DEPTH_MAX: usize = 64;
/// Longest document that is read, in bytes.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// One element with its attributes and children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Its tag.
    pub name: String,
    /// Its attributes.
    pub attributes: BTreeMap<String, String>,
    /// The children, in order.
    pub children: Vec<Element>,
}

/// Why a text is no XML that this module reads.
#[derive(Debug, thiserror::Error)]
pub enum XmlError {
    /// It is no XML.
    #[error("read XML")]
    Malformed(#[from] roxmltree::Error),
    /// It is nested too deeply.
    #[error("XML nested more than {DEPTH_MAX} deep")]
    TooDeep,
    /// It is too long.
    #[error("XML of {0} bytes, at most {DOCUMENT_BYTES_MAX}")]
    TooLong(usize),
}

impl Element {
    /// An empty element.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            attributes: BTreeMap::new(),
            children: Vec::new(),
        }
    }

    /// Returns it with an attribute added.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.attributes.insert(name.to_owned(), value.to_string());
        self
    }

    /// Returns it with a child added.
    #[must_use]
    pub fn containing(mut self, child: Self) -> Self {
        self.children.push(child);
        self
    }

    /// Returns it with these children added.
    #[must_use]
    pub fn containing_all(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children.extend(children);
        self
    }

    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// Whether an attribute is `true`, as flags in the output of crm_mon(8) are.
    pub fn is(&self, name: &str) -> bool {
        self.attribute(name) == Some("true")
    }

    /// Its `id`.
    pub fn id(&self) -> Option<&str> {
        self.attribute("id")
    }

    /// Returns the first child with this tag.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// Returns the first child with this tag, created if there is none.
    pub fn child_or_new(&mut self, name: &str) -> &mut Self {
        let position = self.children.iter().position(|child| child.name == name);
        let index = position.unwrap_or_else(|| {
            self.children.push(Self::new(name));
            self.children.len() - 1
        });
        &mut self.children[index]
    }

    /// Reads a document. Text, comments and namespaces are left out: a CIB has none.
    ///
    /// # Errors
    ///
    /// No XML, or more of it than a cluster has.
    pub fn parse(text: &str) -> Result<Self, XmlError> {
        if text.len() > DOCUMENT_BYTES_MAX {
            return Err(XmlError::TooLong(text.len()));
        }
        let document = roxmltree::Document::parse(text)?;
        Self::from_node(document.root_element(), 0)
    }

    fn from_node(node: roxmltree::Node<'_, '_>, depth: usize) -> Result<Self, XmlError> {
        if depth > DEPTH_MAX {
            return Err(XmlError::TooDeep);
        }
        let attributes = node
            .attributes()
            .map(|one| (one.name().to_owned(), one.value().to_owned()));
        let children = node
            .children()
            .filter(roxmltree::Node::is_element)
            .map(|child| Self::from_node(child, depth + 1));
        Ok(Self {
            name: node.tag_name().name().to_owned(),
            attributes: attributes.collect(),
            children: children.collect::<Result<_, _>>()?,
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        write!(f, "{:1$}<{2}", "", depth * 2, self.name)?;
        let id_first = self
            .attributes
            .iter()
            .filter(|(name, _)| *name == "id")
            .chain(self.attributes.iter().filter(|(name, _)| *name != "id"));
        for (name, value) in id_first {
            write!(f, " {name}=\"")?;
            for c in value.chars() {
                write_escaped(f, c)?;
            }
            f.write_char('"')?;
        }
        if self.children.is_empty() {
            return f.write_str("/>\n");
        }
        f.write_str(">\n")?;
        for child in &self.children {
            child.write(f, depth + 1)?;
        }
        writeln!(f, "{:1$}</{2}>", "", depth * 2, self.name)
    }
}

/// White space other than a blank would become a blank when it is parsed again.
fn write_escaped(f: &mut fmt::Formatter<'_>, c: char) -> fmt::Result {
    match c {
        '&' => f.write_str("&amp;"),
        '<' => f.write_str("&lt;"),
        '>' => f.write_str("&gt;"),
        '"' => f.write_str("&quot;"),
        '\n' => f.write_str("&#10;"),
        '\r' => f.write_str("&#13;"),
        '\t' => f.write_str("&#9;"),
        c => f.write_char(c),
    }
}

impl fmt::Display for Element {
    /// Indented, one element a line, `id` first, the other attributes by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_round_trips() {
        let element = Element::new("a")
            .with("id", "x")
            .with("hard", "<&>\"'\n\t ü")
            .containing(Element::new("b"))
            .containing(Element::new("c").with("z", 1));
        assert_eq!(Element::parse(&element.to_string()).unwrap(), element);
    }

    #[test]
    fn excessive_xml_nesting_is_refused() {
        let deep = format!("{}{}", "<a>".repeat(100), "</a>".repeat(100));
        assert!(Element::parse(&deep).is_err());
        assert!(Element::parse("<a>").is_err());
    }
}
